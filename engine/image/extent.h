/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the holes of an image.
 */
#ifndef ENGINE_IMAGE_EXTENT_H
#define ENGINE_IMAGE_EXTENT_H

#include "engine/backing/kind.h"

#include <stdbool.h>
#include <stdint.h>

struct image;

/* Visits the extents of the range of `length` bytes at `offset` of the image, as .extents() of
 * struct backing_kind does. The visitor's offsets are those of the image. */
int
extents_visit(struct image *image, uint64_t offset, uint64_t length, bool one, extent_visit visit,
	      void *data);

/* Returns whether the image's backing takes less space than its size, so that it has holes, which
 * may lie outside the image's window. */
bool
extents_have_holes(const struct image *image);

#endif
