/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop driver's rule for when an image may use direct I/O (linux drivers/block/loop.c,
 * lo_can_use_dio()), and where in the file direct I/O has to stop.
 */
#ifndef ENGINE_BACKING_DIRECT_H
#define ENGINE_BACKING_DIRECT_H

#include "engine/backing/backing.h"

/*
 * Whether a window that starts `offset` bytes into the backing and is `size` bytes long, served in
 * sectors of `sector_size` bytes, can use direct I/O.  Returns 0, or -EINVAL with the reason.
 * With sectors of 1 byte, a file may have any size: see direct_end().
 * A size of 0 leaves the size out of the question.
 */
int
direct_possible(const struct backing *backing, uint64_t offset, uint64_t size,
		unsigned int sector_size, char reason[REASON_MAX]);

/*
 * Where direct I/O has to stop in the file for a window that ends at `end` (in the file): the rest,
 * less than a block or a page, is for the page cache, since a direct write of it would make the
 * file longer.  A page has either direct writes or cached ones, since its writing back would undo
 * the former.  UINT64_MAX: nowhere, whole blocks reach up to the end.
 */
uint64_t
direct_end(const struct backing *backing, uint64_t end);

#endif
