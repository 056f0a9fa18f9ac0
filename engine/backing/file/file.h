/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regular files and block devices of this machine as backings: the kernel moves their bytes.
 */
#ifndef ENGINE_BACKING_FILE_FILE_H
#define ENGINE_BACKING_FILE_FILE_H

#include "engine/backing/image_kind.h"
#include "engine/backing/kind.h"

extern const struct image_kind image_kind_file;
extern const struct backing_kind backing_file;

/* Returns whether BACKING_BENEATH would find a regular file with that name in `dirfd`. */
bool
file_is_beneath(int dirfd, const char *name);

#endif
