/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an io is cut into chunks: which part goes straight between the caller's buffer and the
 * device, which through a bounce buffer, and which as the read-modify-write of a block.
 */
#ifndef ENGINE_IO_CHUNK_PLAN_H
#define ENGINE_IO_CHUNK_PLAN_H

#include "engine/io/chunk.h"
#include "engine/io/io.h"

struct image;
struct range;

/* Sets start and end of the range of the file that the io changes, in whole blocks: what direct I/O
 * may have to read and write back. */
void
plan_range(const struct image *image, const struct io *io, struct range *range);

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

/* Whether all is written, but FUA still asks for a sync. */
bool
plan_needs_sync(const struct io *io);

/* io.c: to be called when a chunk of the io has come to its end. */
void
io_settle(struct io *io);

#endif
