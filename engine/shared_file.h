/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all images of this process that have the same file or device behind them share: the ranges that are being changed,
 * so that a block isn't changed through two of them at once, and that writing back has failed, which no image
 * that is opened later makes good.
 */
#ifndef ENGINE_SHARED_FILE_H
#define ENGINE_SHARED_FILE_H

#include "engine/range.h"

struct backing;

struct shared_file {
	struct range_lock ranges; /* they count from the start of the file */
	_Atomic int sync_failure; /* -errno of the first failed write-back, for as long as the process lives */
};

/* What is shared with the other images of this.  Given back by shared_file_put().  NULL: out of memory. */
struct shared_file *
shared_file_get(const struct backing *backing);

/* `backing` is still open.  NULL is fine. */
void
shared_file_put(struct shared_file *shared, const struct backing *backing);

#endif
