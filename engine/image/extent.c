/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/image/extent.h"

#include "engine/backing/kind.h"
#include "engine/io/image_state.h"

struct window_visit {
	extent_visit visit;
	void *data;
	uint64_t base; /* start of the image's window in the backing, in bytes */
};

static int
extent_visit_window(void *data, uint64_t offset, uint64_t length, bool hole)
{
	const struct window_visit *window = data;

	return window->visit(window->data, offset - window->base, length, hole);
}

int
extents_visit(struct image *image, uint64_t offset, uint64_t length, bool one, extent_visit visit,
	      void *data)
{
	struct window_visit window = {visit, data, image->config.offset};

	return image->backing.kind->extents(&image->backing, window.base + offset, length, one,
					    extent_visit_window, &window);
}

bool
extents_have_holes(const struct image *image)
{
	return image->backing.kind->have_holes(&image->backing);
}
