/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which of the files of a chain has each granule of a disk, in memory. It takes a byte for each
 * granule near one that a layer holds, however long the chain is; a disk that no layer has changed
 * takes none.
 *
 * Any thread may ask at any time. Granules come to the topmost layer only, and never leave it.
 */
#ifndef ENGINE_LAYER_LAYER_MAP_H
#define ENGINE_LAYER_LAYER_MAP_H

#include "engine/layer/layer_format.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The granules of one map block. */
struct layer_page {
	_Atomic uint8_t owners[LAYER_BLOCK_GRANULES];
	/* Those of the topmost layer; layer_keeper.c's, with the members below. */
	uint64_t bits[LAYER_BLOCK_WORDS];
	uint64_t number;     /* of the block */
	uint64_t generation; /* the newest in the stable map */
	bool reserved;       /* the file has space for both generations */
	bool damaged;        /* the place of the next generation is */
	bool stale;          /* the stable map lacks some */
	bool listed;         /* in a list of pages to write */
	struct layer_page *next_stale, *next;
};

struct layer_map {
	uint64_t granule;                    /* bytes */
	uint64_t granules;                   /* of the disk */
	uint64_t count;                      /* of .pages */
	_Atomic(struct layer_page *) *pages; /* NULL: all granules are the bottom's */
};

/* The owner of what no layer holds. Layers are numbered from 1, the lowest one, on. */
#define LAYER_BOTTOM 0

/* Returns 0 or -ENOMEM. The caller frees the map with layer_map_fini(), also after a failure. */
int
layer_map_init(struct layer_map *map, uint64_t size, uint64_t granule);

void
layer_map_fini(struct layer_map *map);

/* Returns the page of a granule, which is made if it has none; NULL without memory. */
struct layer_page *
layer_map_page(struct layer_map *map, uint64_t granule);

/* Makes `owner` the owner of a granule, whose page exists. */
static inline void
layer_map_set(struct layer_map *map, uint64_t granule, uint8_t owner)
{
	struct layer_page *page = atomic_load_explicit(&map->pages[granule / LAYER_BLOCK_GRANULES],
						       memory_order_acquire);

	atomic_store_explicit(&page->owners[granule % LAYER_BLOCK_GRANULES], owner,
			      memory_order_release);
}

static inline uint8_t
layer_map_owner(const struct layer_map *map, uint64_t granule)
{
	struct layer_page *page = atomic_load_explicit(&map->pages[granule / LAYER_BLOCK_GRANULES],
						       memory_order_acquire);

	return page ? atomic_load_explicit(&page->owners[granule % LAYER_BLOCK_GRANULES],
					   memory_order_acquire)
		    : LAYER_BOTTOM;
}

/* Returns where the owner of the granule at `place` changes, at most `end`, both in bytes of the
 * disk, and sets *owner. */
uint64_t
layer_map_run(const struct layer_map *map, uint64_t place, uint64_t end, uint8_t *owner);

/* Returns whether `owner` has all granules from `first` up to `end`, which may be the same. */
bool
layer_map_has_all(const struct layer_map *map, uint64_t first, uint64_t end, uint8_t owner);

#endif
