/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looks at an image that is served: the one place that compares what was found when it was opened
 * with what its kind of backing finds now, and that logs the difference.
 */
#include "engine/image/image.h"

#include "engine/backing/kind.h"
#include "engine/io/image_state.h"

#include "common/log.h"

#include <string.h>

/* Takes the trouble over. Returns whether it is another one than before, which *before then has. */
static bool
replace_trouble(struct image *image, const char *trouble, char before[BACKING_TROUBLE])
{
	bool differs;

	pthread_mutex_lock(&image->facts);
	memcpy(before, image->trouble, BACKING_TROUBLE);
	differs = strcmp(before, trouble) != 0;
	strcpy(image->trouble, trouble);
	pthread_mutex_unlock(&image->facts);
	return differs;
}

static void
tell_trouble(struct image *image, const char *trouble, bool again)
{
	char before[BACKING_TROUBLE];
	bool differs = replace_trouble(image, trouble, before);

	if (differs && before[0])
		log_info("%s: no longer so: %s", image->backing.path, before);
	if (trouble[0] && (differs || again))
		log_warning("%s: %s", image->backing.path, trouble);
}

bool
image_is_looked_at(const struct image *image)
{
	return image->backing.kind->look;
}

void
image_look(struct image *image, bool again, struct image_look *look)
{
	struct backing_look seen;

	*look = (struct image_look){.resized = false};
	if (!image_is_looked_at(image))
		return;
	image->backing.kind->look(&image->backing, &seen);
	tell_trouble(image, seen.trouble, again);
	pthread_mutex_lock(&image->resizing);
	look->resized = seen.size != image->file_size;
	pthread_mutex_unlock(&image->resizing);
	look->writable_again = seen.writable_again;
}
