/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the alignment that direct I/O to an open file or block device needs.
 */
#ifndef ENGINE_BACKING_FILE_ALIGNMENT_H
#define ENGINE_BACKING_FILE_ALIGNMENT_H

#include <stddef.h>

/* In bytes, each a power of 2. */
struct alignment {
	unsigned int offset; /* alignment of offset and length */
	unsigned int memory;
	unsigned int sector; /* the alignment of offset and length that the kernel needs, up to
				.offset */
};

/*
 * Finds the alignment: from statx(STATX_DIOALIGN), else from `device_block`, the logical block size
 * of the device below (in bytes; 0: unknown), else 512. A direct read of the first block proves it.
 * For a file without extents (ext2, ext3), .offset is a page: see alignment.c.
 * `fd` must be open with O_DIRECT. Returns 0, or -errno with the reason, of at most `size` bytes,
 * why direct I/O is not possible.
 */
int
alignment_learn(int fd, unsigned int device_block, struct alignment *alignment, char *reason,
		size_t size);

#endif
