/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State that all images of this process on the same file or device share: the ranges that are being
 * changed, so that no block is changed through two images at once, and whether a write-back has
 * failed, since opening the image again does not bring lost data back.
 */
#ifndef ENGINE_IO_SHARED_FILE_H
#define ENGINE_IO_SHARED_FILE_H

#include "engine/io/range.h"

#include <stdbool.h>

struct backing;

struct shared_file {
	struct range_lock ranges; /* in bytes from the start of the file */
	_Atomic int sync_failure; /* -errno of the first failed write-back, or 0; kept until the
				     process ends */
};

/* Records that a write-back has failed with `err` (-errno). Returns false if an earlier failure is
 * recorded already. */
bool
shared_file_record_loss(struct shared_file *shared, int err);

/*
 * Returns -errno of the first failed write-back if data written through the page cache may be lost,
 * or 0. It asks the kernel, but waits for no I/O. It is needed because the kernel reports a failure
 * to only one of two flushes at the same time, and the success of the other one means nothing.
 */
int
shared_file_lost(struct shared_file *shared);

/* Returns the state that is shared with the other images of this backing, which the caller gives
 * back with shared_file_put(). Returns NULL with errno if there is no memory or no descriptor. */
struct shared_file *
shared_file_get(const struct backing *backing);

/* Gives the state back. NULL is allowed. */
void
shared_file_put(struct shared_file *shared);

#endif
