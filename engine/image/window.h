/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The window of a backing that an image shows, by losetup's rules for --offset and --sizelimit.
 */
#ifndef ENGINE_IMAGE_WINDOW_H
#define ENGINE_IMAGE_WINDOW_H

#include "engine/backing/backing.h"
#include "engine/image_config.h"

/*
 * The window's length before any rounding: what lies behind the offset, at most the size limit.
 * Returns 0, or -EINVAL with *error (caller frees): the offset is behind the end.
 */
int
window_length(const struct backing *backing, const struct image_config *config, uint64_t file_size,
	      uint64_t *length, char **error);

/* The same for the size that the backing has now.  Also -errno: its size can't be read. */
int
window_measure(const struct backing *backing, const struct image_config *config, uint64_t *length,
	       char **error);

/* Rounds a length down to whole sectors, with losetup's two warnings; an offset or a limit that is
 * no multiple of a sector is named. */
uint64_t
window_round(const struct backing *backing, const struct image_config *config, uint64_t length,
	     unsigned int sector_size);

#endif
