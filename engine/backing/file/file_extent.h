/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the holes of a file.
 */
#ifndef ENGINE_BACKING_FILE_FILE_EXTENT_H
#define ENGINE_BACKING_FILE_FILE_EXTENT_H

#include "engine/backing/backing.h"
#include "engine/backing/kind.h"

/* As the functions of struct backing_kind. If the file system can't tell holes, the range is one
 * extent of data. have_holes() costs a system call. A block device has no holes. */
int
file_extents(const struct backing *backing, uint64_t offset, uint64_t length, bool one,
	     extent_visit visit, void *data);
bool
file_have_holes(const struct backing *backing);

#endif
