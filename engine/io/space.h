/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Releasing space and making zeroes without writing them: chooses the fallocate(2) mode for an
 * operation, and remembers the modes that the backing does not support.
 */
#ifndef ENGINE_IO_SPACE_H
#define ENGINE_IO_SPACE_H

struct image;
struct io;

/*
 * Finds the fallocate() mode for a DISCARD or ZERO after *attempt kinds have failed. The caller
 * starts with *attempt 0; the function raises it past the kinds that are known not to work. Returns
 * the mode, or -EOPNOTSUPP if none is left.
 */
int
space_mode(const struct image *image, const struct io *io, unsigned int *attempt);

/* Remembers that the backing does not support the kind of this attempt, and logs that once. */
void
space_unsupported(struct image *image, const struct io *io, unsigned int attempt);

#endif
