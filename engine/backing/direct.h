/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop driver's rule for when an image may use direct I/O (lo_can_use_dio() in Linux's
 * drivers/block/loop.c), and the place in the file where direct I/O has to stop.
 */
#ifndef ENGINE_BACKING_DIRECT_H
#define ENGINE_BACKING_DIRECT_H

#include "engine/backing/backing.h"

/*
 * Tests whether a window of `size` bytes that starts `offset` bytes into the backing can use direct
 * I/O with sectors of `sector_size` bytes. Returns 0, or -EINVAL with the reason. With sectors of 1
 * byte, a file may have any size: see direct_end(). With a `size` of 0, the size is not tested.
 */
int
direct_possible(const struct backing *backing, uint64_t offset, uint64_t size,
		unsigned int sector_size, char reason[REASON_MAX]);

/*
 * Returns the offset in the file at which direct I/O has to stop, for a window that ends at offset
 * `end` of the file. The rest, less than a block or a page, is for the page cache, because a direct
 * write of the rest would make the file longer. A page gets either direct writes or cached ones,
 * because the write-back of a cached page would undo direct writes to it. Returns UINT64_MAX if
 * direct I/O need not stop, because whole blocks reach up to the end.
 */
uint64_t
direct_end(const struct backing *backing, uint64_t end);

#endif
