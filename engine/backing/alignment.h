/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The alignment that direct I/O to an open file or block device needs.
 */
#ifndef ENGINE_BACKING_ALIGNMENT_H
#define ENGINE_BACKING_ALIGNMENT_H

#include "engine/reason.h"

/* Bytes, each a power of 2. */
struct alignment {
	unsigned int offset; /* of offset and length */
	unsigned int memory;
};

/*
 * Finds the alignment: by statx(STATX_DIOALIGN), else `device_block`, the logical block size of the
 * device below (0: unknown), else 512; proved by a direct read of the first block.  `fd` is open
 * with O_DIRECT.  Returns 0, or -errno with the reason why direct I/O is not possible.
 */
int
alignment_learn(int fd, unsigned int device_block, struct alignment *alignment,
		char reason[REASON_MAX]);

#endif
