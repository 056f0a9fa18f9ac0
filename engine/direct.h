/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Direct I/O: what alignment it needs, and the loop driver's rule for when an image may use it
 * (linux drivers/block/loop.c, lo_can_use_dio()).
 */
#ifndef ENGINE_DIRECT_H
#define ENGINE_DIRECT_H

#include "engine/backing.h"

/*
 * Sets direct_align and memory_align of the backing: from statx(STATX_DIOALIGN), else the logical
 * block size of the device below, else 512; proved by a direct read of the first block.  `fd` is
 * open with O_DIRECT.  Returns 0, or -errno with .direct_reason set.
 */
int
direct_learn(int fd, struct backing *backing);

/* The logical block size of the device that the file is on, 512 to 4096; 0: it isn't on just one, or that isn't known. */
unsigned int
direct_device_block(const struct backing *backing);

/*
 * Whether a window that starts `offset` bytes into the backing and is `size` bytes long, served in
 * sectors of `sector_size` bytes, can use direct I/O.  Returns 0, or -EINVAL with the reason.
 * A size of 0 leaves the size out of the question.
 */
int
direct_possible(const struct backing *backing, uint64_t offset, uint64_t size, unsigned int sector_size,
		char reason[REASON_MAX]);

#endif
