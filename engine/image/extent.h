/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the holes of an image's file.
 */
#ifndef ENGINE_IMAGE_EXTENT_H
#define ENGINE_IMAGE_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

struct image;

/*
 * Calls `visit` for each extent of the range of `length` bytes at `offset` of the image, in order,
 * and never beyond the range; with `one`, only for the first extent. If `visit` returns a value
 * other than 0, the visit ends and the function returns that value. Otherwise returns 0 or -errno.
 * If the file system can't tell holes, the range is one extent of data.
 */
int
extents_visit(struct image *image, uint64_t offset, uint64_t length, bool one,
	      int (*visit)(void *data, uint64_t offset, uint64_t length, bool hole), void *data);

/* Returns whether the image's file takes less space than its size, so that it has holes, which may
 * lie outside the image's window. Costs a system call. A block device has no holes. */
bool
extents_have_holes(const struct image *image);

#endif
