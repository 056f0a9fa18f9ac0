/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which parts of an image are holes of its file.
 */
#ifndef ENGINE_IMAGE_EXTENT_H
#define ENGINE_IMAGE_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

struct image;

/*
 * Calls `visit` for each extent of a range in order, never beyond it; only for the first one with
 * `one`.  What `visit` returns other than 0 ends it and is returned.  Else returns 0 or -errno.  A
 * file system that can't tell holes has one extent of data.
 */
int
extents_visit(struct image *image, uint64_t offset, uint64_t length, bool one,
	      int (*visit)(void *data, uint64_t offset, uint64_t length, bool hole), void *data);

/* Whether the image's file takes less room than its size: then there are holes, perhaps not in the
 * image's window. Costs a system call.  A block device has none. */
bool
extents_have_holes(const struct image *image);

#endif
