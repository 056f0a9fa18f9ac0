/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/io/image_state.h"

#include "engine/backing/direct.h"

void
image_set_size(struct image *image, uint64_t size)
{
	atomic_store(&image->direct_end, direct_end(&image->backing, image->config.offset + size));
	atomic_store(&image->size, size);
}

bool
image_may_cache(const struct image *image)
{
	return !image->backing.block_device || !atomic_load(&image->direct);
}
