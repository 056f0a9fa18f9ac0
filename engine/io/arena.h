/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for the bounce buffers of an image's contexts, in pieces of one size, cut from huge pages
 * where the kernel has them: a megabyte on its way to or from the device is then one segment
 * instead of 256.  No two pieces share a huge page, since they are used by different threads.
 */
#ifndef ENGINE_IO_ARENA_H
#define ENGINE_IO_ARENA_H

#include <pthread.h>
#include <stddef.h>

struct arena_slab;

struct arena {
	size_t piece;          /* bytes, a multiple of the page size */
	pthread_mutex_t mutex; /* guards what follows */
	struct arena_slab *slabs;
	unsigned int colour; /* of the next slab; see arena.c */
	void *spare;         /* pieces given back, linked through their first bytes */
};

void
arena_init(struct arena *arena, size_t piece);

/* All pieces must be given back. */
void
arena_fini(struct arena *arena);

/* A piece, aligned to at least a page, its contents undefined; NULL when memory ran out.  Any
 * thread. */
void *
arena_take(struct arena *arena);
void
arena_give(struct arena *arena, void *piece);

#endif
