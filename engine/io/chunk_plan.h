/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cuts an io into chunks. Each part of the io moves directly between the caller's buffer and the
 * device, or through a bounce buffer, or as the read-modify-write of a block.
 */
#ifndef ENGINE_IO_CHUNK_PLAN_H
#define ENGINE_IO_CHUNK_PLAN_H

#include <stdbool.h>

struct chunk;
struct image;
struct io;

/*
 * Fills an idle chunk with the next part of the io, and counts that part as issued. Returns false
 * if there is no part to issue: the operation turned out to be complete, or impossible (io->result
 * is then set).
 */
bool
plan_chunk(const struct image *image, struct io *io, struct chunk *chunk);

#endif
