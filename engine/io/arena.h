/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for the bounce buffers of an image's contexts, in pieces of one size. The pieces are cut
 * from huge pages if the kernel has them: the device then transfers a megabyte as one segment
 * instead of 256. No two pieces share a huge page, because different threads use them.
 */
#ifndef ENGINE_IO_ARENA_H
#define ENGINE_IO_ARENA_H

#include <pthread.h>
#include <stddef.h>

struct arena_slab;

struct arena {
	size_t piece;          /* in bytes, a multiple of the page size */
	pthread_mutex_t mutex; /* guards the members below */
	struct arena_slab *slabs;
	unsigned int colour; /* of the next slab: see arena.c */
	void *spare;         /* pieces that were given back, linked through their first bytes */
};

/* Makes an arena without memory. `piece` is the size of each piece in bytes, a multiple of the page
 * size. */
void
arena_init(struct arena *arena, size_t piece);

/* Unmaps all memory. All pieces must have been given back. */
void
arena_fini(struct arena *arena);

/* Returns a piece, which is aligned to at least a page and has undefined contents, or NULL if
 * memory ran out. The caller gives the piece back with arena_give(). Any thread may call both. */
void *
arena_take(struct arena *arena);
void
arena_give(struct arena *arena, void *piece);

#endif
