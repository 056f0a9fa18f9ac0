/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One io_uring with an image's two descriptors registered: what the plain and the polled backend
 * have in common.
 */
#ifndef ENGINE_RING_H
#define ENGINE_RING_H

#include "engine/chunk.h"

#include <liburing.h>
#include <stdbool.h>

struct backing;
struct ioctx;

struct ring {
	struct io_uring uring;
	unsigned int in_flight; /* chunks with this ring */
	bool files_registered;
};

/* `flags` are IORING_SETUP_*.  Returns 0 or -errno. */
int
ring_init(struct ring *ring, const struct backing *backing, unsigned int depth, unsigned int flags);
void
ring_fini(struct ring *ring);

/*
 * Tells the kernel of the context's arena, so that it maps the buffers once instead of for each
 * operation.  Returns how many chunks' buffers, from the first, it knows now: all, the first one where
 * little memory may be locked, or none, which is said once in the log.
 */
unsigned int
ring_register_arena(struct ring *ring, const struct ioctx *ctx);

/* Puts the chunk into the next SQE. The ring has at least as many as the context has chunks. */
void
ring_queue(struct ring *ring, const struct backing *backing, struct chunk *chunk);

/* Submits, waits for `min` completions, and calls chunk_done() for all there are. 0 or -errno. */
int
ring_run(struct ring *ring, struct ioctx *ctx, unsigned int min);

#endif
