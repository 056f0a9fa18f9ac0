/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What keeps this process from writing to a file or device: why it could be opened only for
 * reading, and what has come up since it was opened for writing. Other users of an image, who might
 * write to it, are the subject of claim.h.
 */
#ifndef ENGINE_BACKING_FILE_OBSTACLE_H
#define ENGINE_BACKING_FILE_OBSTACLE_H

#include "engine/backing/backing.h"

#include <stdbool.h>

/* Sets .read_only_reason of a backing that is open for reading. `err`: the -errno of the attempt to
 * open it for writing; 0: the device itself is read-only. */
void
obstacle_explain(struct backing *backing, int err);

/* Returns whether a backing with a .read_only_reason may be opened for writing now. */
bool
obstacle_is_gone(const struct backing *backing);

/* Returns whether writes fail although the backing is open for writing, and sets the reason. Writes
 * nothing, but may wait for the file system. */
bool
obstacle_find(const struct backing *backing, char reason[REASON_MAX]);

#endif
