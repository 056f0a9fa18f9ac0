/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/io/arena.h"

#include "common/locked_memory.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* The size on most machines. Where it is different, the kernel just does not use huge pages. */
#define HUGE_PAGE ((size_t)2 << 20)

/* Two pages, so that bounce buffers of different colours do not overlap for the most frequent
 * sizes. */
#define COLOUR_STEP 8192

struct arena_slab {
	char *memory; /* aligned to HUGE_PAGE */
	size_t length;
	size_t room; /* pieces may use this many of its bytes */
	size_t used;
	struct arena_slab *next;
};

void
arena_init(struct arena *arena, size_t piece)
{
	assert(piece > 0);
	*arena = (struct arena){.piece = piece, .mutex = PTHREAD_MUTEX_INITIALIZER};
}

void
arena_fini(struct arena *arena)
{
	while (arena->slabs) {
		struct arena_slab *slab = arena->slabs;

		arena->slabs = slab->next;
		munmap(slab->memory, slab->length);
		free(slab);
	}
	pthread_mutex_destroy(&arena->mutex);
}

/* Maps `length` bytes, aligned to a huge page: maps more than needed and unmaps both unaligned
 * ends. */
static char *
arena_map(size_t length)
{
	char *memory = mmap(NULL, length + HUGE_PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	if (memory == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)memory & (HUGE_PAGE - 1);
	if (before)
		munmap(memory, before);
	munmap(memory + before + length, HUGE_PAGE - before);
	return memory + before;
}

/* The caller holds the mutex. Returns NULL if memory ran out. */
static struct arena_slab *
arena_add_slab(struct arena *arena)
{
	struct arena_slab *slab = malloc(sizeof(*slab));

	if (!slab)
		return NULL;
	slab->length = (arena->piece + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	slab->used = 0;
	slab->memory = arena_map(slab->length);
	if (!slab->memory) {
		free(slab);
		return NULL;
	}
	/* A huge page has a single reference count, which each transfer to or from it changes, so
	 * no two contexts share one. The kernel also charges a whole huge page to a process that
	 * registers a part of it, so a process that may lock only little memory gets small pages.
	 * madvise() gives only advice: if the kernel does not know huge pages, it refuses, which
	 * does no harm. */
	if (locked_memory_is_plentiful()) {
		madvise(slab->memory, slab->length, MADV_HUGEPAGE);
		/* If every piece began at the start of its slab, the small requests of all contexts
		 * would fall into the same few sets of the processor's caches. */
		if (slab->length > arena->piece)
			slab->used = arena->colour++ * (size_t)COLOUR_STEP %
				     (slab->length - arena->piece);
		slab->room = slab->used + arena->piece;
	} else {
		madvise(slab->memory, slab->length, MADV_NOHUGEPAGE);
		slab->room = slab->length;
	}
	slab->next = arena->slabs;
	arena->slabs = slab;
	return slab;
}

void *
arena_take(struct arena *arena)
{
	struct arena_slab *slab;
	void *piece;

	pthread_mutex_lock(&arena->mutex);
	piece = arena->spare;
	slab = arena->slabs;
	if (piece) {
		arena->spare = *(void **)piece;
	} else {
		if (!slab || slab->room - slab->used < arena->piece)
			slab = arena_add_slab(arena);
		if (slab) {
			piece = slab->memory + slab->used;
			slab->used += arena->piece;
		}
	}
	pthread_mutex_unlock(&arena->mutex);
	return piece;
}

void
arena_give(struct arena *arena, void *piece)
{
	pthread_mutex_lock(&arena->mutex);
	*(void **)piece = arena->spare;
	arena->spare = piece;
	pthread_mutex_unlock(&arena->mutex);
}
