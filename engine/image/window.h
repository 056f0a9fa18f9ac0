/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The window of a backing that is visible as an image, by losetup's rules for --offset and
 * --sizelimit.
 */
#ifndef ENGINE_IMAGE_WINDOW_H
#define ENGINE_IMAGE_WINDOW_H

#include "engine/backing/backing.h"
#include "engine/image_config.h"

/*
 * Computes the window's length in bytes before any rounding: the bytes after the offset, at most
 * the size limit. `file_size` is in bytes. Returns 0 with *length, or -EINVAL with *error (the
 * caller frees it) if the offset is after the end of the file.
 */
int
window_length(const struct backing *backing, const struct image_config *config, uint64_t file_size,
	      uint64_t *length, char **error);

/* The same for what backing_size() has returned, which may be -errno. */
int
window_measure(const struct backing *backing, const struct image_config *config, int64_t file_size,
	       uint64_t *length, char **error);

/* Returns a length in bytes, rounded down to whole sectors. Gives losetup's two warnings, and names
 * an offset or a limit that is no multiple of a sector. */
uint64_t
window_round(const struct backing *backing, const struct image_config *config, uint64_t length,
	     unsigned int sector_size);

#endif
