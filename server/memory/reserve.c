/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/memory/reserve.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define UNIT    ((size_t)4096)
#define LARGEST (RESERVE_ORDERS - 1)

/* The first bytes of an idle block. */
struct idle_block {
	struct idle_block *next, **link;
};

struct reserve {
	char *memory;
	size_t units;
	struct idle_block *idle[RESERVE_ORDERS];
	uint8_t marks[]; /* by unit: 1 + the order of the idle block that begins there, or 0 */
};

static struct idle_block *
block_at(const struct reserve *reserve, size_t unit)
{
	return (struct idle_block *)(reserve->memory + unit * UNIT);
}

static void
reserve_add(struct reserve *reserve, size_t unit, unsigned int order)
{
	struct idle_block *block = block_at(reserve, unit), **list = &reserve->idle[order];

	block->next = *list;
	block->link = list;
	if (block->next)
		block->next->link = &block->next;
	*list = block;
	reserve->marks[unit] = (uint8_t)(1 + order);
}

static void
remove_(struct reserve *reserve, size_t unit)
{
	struct idle_block *block = block_at(reserve, unit);

	*block->link = block->next;
	if (block->next)
		block->next->link = block->link;
	reserve->marks[unit] = 0;
}

struct reserve *
reserve_new(size_t size)
{
	size_t units = size / (UNIT << LARGEST) << LARGEST;
	struct reserve *reserve = calloc(1, sizeof(*reserve) + units);

	if (!reserve)
		return NULL;
	reserve->units = units;
	reserve->memory = mmap(NULL, units * UNIT, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (reserve->memory == MAP_FAILED) {
		free(reserve);
		return NULL;
	}
	for (size_t unit = 0; unit < units; unit += (size_t)1 << LARGEST)
		reserve_add(reserve, unit, LARGEST);
	return reserve;
}

void
reserve_free(struct reserve *reserve)
{
	if (!reserve)
		return;
	for (size_t unit = 0; unit < reserve->units; unit += (size_t)1 << LARGEST)
		assert(reserve->marks[unit] == 1 + LARGEST);
	munmap(reserve->memory, reserve->units * UNIT);
	free(reserve);
}

char *
reserve_memory(const struct reserve *reserve)
{
	return reserve->memory;
}

void *
reserve_take(struct reserve *reserve, unsigned int order)
{
	unsigned int from = order;
	size_t unit;

	assert(order <= LARGEST);
	while (from <= LARGEST && !reserve->idle[from])
		from++;
	if (from > LARGEST)
		return NULL;
	unit = (size_t)((char *)reserve->idle[from] - reserve->memory) / UNIT;
	remove_(reserve, unit);
	/* The upper halves stay. */
	while (from-- > order)
		reserve_add(reserve, unit + ((size_t)1 << from), from);
	return block_at(reserve, unit);
}

void
reserve_give(struct reserve *reserve, void *memory, unsigned int order)
{
	size_t unit = (size_t)((char *)memory - reserve->memory) / UNIT;

	for (; order < LARGEST; order++) {
		size_t buddy = unit ^ (size_t)1 << order;

		if (reserve->marks[buddy] != 1 + order)
			break;
		remove_(reserve, buddy);
		unit &= ~((size_t)1 << order);
	}
	reserve_add(reserve, unit, order);
}
