/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an io is cut into chunks: which part goes straight between the caller's buffer and the
 * device, which through a bounce buffer, and which as the read-modify-write of a block.
 */
#ifndef ENGINE_IO_CHUNK_PLAN_H
#define ENGINE_IO_CHUNK_PLAN_H

#include <stdbool.h>

struct chunk;
struct image;
struct io;

/*
 * Fills an idle chunk with the next part of the io and counts that part as issued.  Returns false
 * when there is no such part: the operation has turned out to be done, or impossible (io->result is
 * set).
 */
bool
plan_chunk(const struct image *image, struct io *io, struct chunk *chunk);

/* Whether another chunk of the io may go out while this one, its last, is under way. */
bool
plan_has_more(const struct io *io, const struct chunk *chunk);

#endif
