/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/layer/layer_map.h"

#include <errno.h>
#include <stdlib.h>

int
layer_map_init(struct layer_map *map, uint64_t size, uint64_t granule)
{
	*map = (struct layer_map){
		.granule = granule,
		.granules = size / granule + (size % granule != 0),
		.count = layer_blocks_for(size, granule),
	};
	/* The kernel gives large ones memory only where they are touched. */
	map->pages = calloc(map->count ? map->count : 1, sizeof(*map->pages));
	return map->pages ? 0 : -ENOMEM;
}

void
layer_map_fini(struct layer_map *map)
{
	for (uint64_t i = 0; map->pages && i < map->count; i++)
		free(atomic_load_explicit(&map->pages[i], memory_order_relaxed));
	free(map->pages);
	map->pages = NULL;
}

struct layer_page *
layer_map_page(struct layer_map *map, uint64_t granule)
{
	_Atomic(struct layer_page *) *place = &map->pages[granule / LAYER_BLOCK_GRANULES];
	struct layer_page *page = atomic_load_explicit(place, memory_order_acquire), *made;

	if (page)
		return page;
	made = calloc(1, sizeof(*made));
	if (!made)
		return NULL;
	made->number = granule / LAYER_BLOCK_GRANULES;
	if (atomic_compare_exchange_strong(place, &page, made))
		return made;
	free(made);
	return page;
}

/* Returns the first granule from `first` on, at most `end`, that has another owner. */
static uint64_t
map_same_until(const struct layer_map *map, uint64_t first, uint64_t end, uint8_t owner)
{
	uint64_t granule = first;

	while (granule < end) {
		struct layer_page *page = atomic_load_explicit(
			&map->pages[granule / LAYER_BLOCK_GRANULES], memory_order_acquire);
		uint64_t next = (granule / LAYER_BLOCK_GRANULES + 1) * LAYER_BLOCK_GRANULES;

		next = next < end ? next : end;
		if (!page && owner != LAYER_BOTTOM)
			break;
		while (page && granule < next &&
		       atomic_load_explicit(&page->owners[granule % LAYER_BLOCK_GRANULES],
					    memory_order_acquire) == owner)
			granule++;
		if (page && granule < next)
			break;
		granule = next;
	}
	return granule;
}

uint64_t
layer_map_run(const struct layer_map *map, uint64_t place, uint64_t end, uint8_t *owner)
{
	uint64_t granule = place / map->granule;
	uint64_t last = end / map->granule + (end % map->granule != 0);
	uint64_t until;

	*owner = layer_map_owner(map, granule);
	until = map_same_until(map, granule + 1, last, *owner) * map->granule;
	return until < end ? until : end;
}

bool
layer_map_has_all(const struct layer_map *map, uint64_t first, uint64_t end, uint8_t owner)
{
	return first >= end || map_same_until(map, first, end, owner) == end;
}
