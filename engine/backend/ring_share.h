/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context's share of a ring: the two descriptors of its image are registered files, its arena may
 * be the registered buffer, and its chunks become SQEs.
 */
#ifndef ENGINE_BACKEND_RING_SHARE_H
#define ENGINE_BACKEND_RING_SHARE_H

struct backing;
struct chunk;
struct ioctx;
struct ring;

struct ring_share {
	struct ring *ring;
	int files; /* number of the first registered file; -1: none are registered */
};

/* How many files a share registers. */
#define RING_SHARE_FILES 2

/* Makes a share, and registers the files of `backing` if the ring has places for them. The ring
 * stays the caller's and must outlive the share. */
void
ring_share_init(struct ring_share *share, struct ring *ring, const struct backing *backing);
/* Unregisters the files. None of the share's chunks may be in flight. */
void
ring_share_fini(struct ring_share *share);

/*
 * Registers the context's arena, so that the kernel maps the buffers once instead of for each
 * operation. Only for a ring that nothing else uses. Returns how many chunks' buffers, from the
 * first, are registered now: all of them, only the first if little memory may be locked, or 0,
 * which is logged once.
 */
unsigned int
ring_share_register_arena(struct ring_share *share, const struct ioctx *ctx);

/* Puts the chunk into the next SQE. A later run of the ring passes the result to chunk_done(). */
void
ring_share_queue(struct ring_share *share, const struct backing *backing, struct chunk *chunk);

#endif
