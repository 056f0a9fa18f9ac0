/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context's share of a ring: its image's two descriptors among the registered files, its arena
 * among the registered buffers, and how its chunks become SQEs.
 */
#ifndef ENGINE_BACKEND_RING_SHARE_H
#define ENGINE_BACKEND_RING_SHARE_H

struct backing;
struct chunk;
struct ioctx;
struct ring;

struct ring_share {
	struct ring *ring;
	int files; /* number of the first registered file, or -1 */
};

/* Files that a share registers. */
#define RING_SHARE_FILES 2

void
ring_share_init(struct ring_share *share, struct ring *ring, const struct backing *backing);
void
ring_share_fini(struct ring_share *share);

/*
 * Tells the kernel of the context's arena, so that it maps the buffers once instead of for each
 * operation.  Only for a ring that nobody else uses.  Returns how many chunks' buffers, from the
 * first, it knows now: all, the first one where little memory may be locked, or none, which is said
 * once in the log.
 */
unsigned int
ring_share_register_arena(struct ring_share *share, const struct ioctx *ctx);

/* Puts the chunk into the next SQE; chunk_done() gets its result. */
void
ring_share_queue(struct ring_share *share, const struct backing *backing, struct chunk *chunk);

#endif
