/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A copy (engine/snapshot/copy.h) as an image: what another image held at a moment.
 */
#ifndef ENGINE_SNAPSHOT_COPY_IMAGE_H
#define ENGINE_SNAPSHOT_COPY_IMAGE_H

#include "engine/image/image.h"

#include <stdbool.h>
#include <stdint.h>

struct copy;

struct copy_image_wish {
	const struct image *image; /* whose bytes are wanted */
	const char *name;          /* for messages */
	const char *scratch;       /* directory of the scratch file */
	uint64_t scratch_size;     /* the most bytes of that; 0: no limit */
};

/* Opens the copy with this configuration, of which the engine and the page cache are chosen here.
 * Takes over `path`, which is for messages (free). Returns 0 with *copied, an image that the caller
 * closes with image_close(), before `image`; or -errno with *error, a sentence (the caller frees
 * it). */
int
copy_image_open(const struct copy_image_wish *wish, const struct image_config *config, char *path,
		struct image **copied, char **error);

/* From this moment on, changes of `image` copy the old bytes first. Only between freeze_begin() and
 * freeze_end() for it. */
void
copy_image_begin(struct image *copied, struct image *image);

/* Returns whether the image is a copy. */
bool
copy_image_is(const struct image *image);

struct copy *
copy_image_copy(const struct image *copied);

#endif
