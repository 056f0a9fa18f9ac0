/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Giving back space and making zeroes without writing them: which fallocate(2) does what an
 * operation asks for, and what the backing has turned out not to support.
 */
#ifndef ENGINE_IO_SPACE_H
#define ENGINE_IO_SPACE_H

struct image;
struct io;

/*
 * The mode of fallocate() for a DISCARD or ZERO, when `attempt` kinds have failed before
 * (0 at first; raised past those that are known not to work).  Returns the mode, or -EOPNOTSUPP:
 * there is none (left).
 */
int
space_mode(const struct image *image, const struct io *io, unsigned int *attempt);

/* Remembers that the kind of that attempt isn't supported, and says so once. */
void
space_unsupported(struct image *image, const struct io *io, unsigned int attempt);

/* The bytes that fallocate() keeps to: 1 on a file, the logical block size on a block device. */
unsigned int
space_align(const struct image *image);

#endif
