/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all images of this process that have the same file or device behind them share: the ranges
 * that are being changed, so that a block isn't changed through two of them at once, and that
 * writing back has failed, which no image that is opened later makes good.
 */
#ifndef ENGINE_IO_SHARED_FILE_H
#define ENGINE_IO_SHARED_FILE_H

#include "engine/io/range.h"

#include <stdbool.h>

struct backing;

struct shared_file {
	struct range_lock ranges; /* they count from the start of the file */
	_Atomic int sync_failure; /* -errno of the first failed write-back, for as long as the
				     process lives */
};

/* A write-back has failed with `err` (-errno).  False if that was known already. */
bool
shared_file_record_loss(struct shared_file *shared, int err);

/*
 * Why what was written through the page cache may be lost: -errno of the first write-back that
 * failed, 0 if none has.  It asks the kernel, without waiting for anything: of two flushes at the
 * same time the kernel tells only one of a failure, and the other one's success means nothing.
 */
int
shared_file_lost(struct shared_file *shared);

/* What is shared with the other images of this.  Given back by shared_file_put().  NULL with errno:
 * no memory or descriptors. */
struct shared_file *
shared_file_get(const struct backing *backing);

/* NULL is fine. */
void
shared_file_put(struct shared_file *shared);

#endif
