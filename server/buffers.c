/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/buffers.h"

#include "server/reserve.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#define SMALLEST ((size_t)4096)
#define SLAB     ((size_t)1 << 20)
/* Smaller ones are cut from slabs, which stay; larger ones are mapped, and unmapped when others need the room. */
#define LARGE    ((size_t)64 << 10)

static size_t
size_of(unsigned int size)
{
	return SMALLEST << size;
}

static unsigned int
size_for(size_t length)
{
	unsigned int size = 0;

	assert(length > 0 && length <= size_of(BUFFER_SIZES - 1));
	while (size_of(size) < length)
		size++;
	return size;
}

void
buffers_init(struct buffers *buffers, size_t limit)
{
	*buffers = (struct buffers){.limit = limit};
}

int
buffers_reserve(struct buffers *buffers)
{
	_Static_assert(BUFFER_SIZES == RESERVE_ORDERS, "a size is an order");
	buffers->reserve = reserve_new(buffers->limit);
	return buffers->reserve ? 0 : -ENOMEM;
}

static void
push(void **list, void *memory)
{
	*(void **)memory = *list;
	*list = memory;
}

static void *
pop(void **list)
{
	void *memory = *list;

	if (memory)
		*list = *(void **)memory;
	return memory;
}

static void
release_large(struct buffers *buffers)
{
	void *memory;

	for (unsigned int size = size_for(LARGE); size < BUFFER_SIZES; size++) {
		while ((memory = pop(&buffers->idle[size])) != NULL)
			munmap(memory, size_of(size));
	}
	buffers->idle_large = 0;
}

void
buffers_fini(struct buffers *buffers)
{
	void *slab;

	assert(buffers->taken == 0);
	reserve_free(buffers->reserve);
	release_large(buffers);
	while ((slab = pop(&buffers->slabs)) != NULL)
		munmap((char *)slab, SLAB);
}

static void *
map(size_t length)
{
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* The first page of a slab holds the pointer to the next slab. */
static void
cut_slab(struct buffers *buffers, unsigned int size)
{
	char *slab = map(SLAB);

	if (!slab)
		return;
	push(&buffers->slabs, slab);
	for (size_t at = SMALLEST; at + size_of(size) <= SLAB; at += size_of(size))
		push(&buffers->idle[size], slab + at);
}

static void *
make(struct buffers *buffers, unsigned int size)
{
	if (size_of(size) < LARGE) {
		cut_slab(buffers, size);
		return pop(&buffers->idle[size]);
	}
	/* Idle ones of other sizes make room. */
	if (buffers->taken + buffers->idle_large + size_of(size) > buffers->limit)
		release_large(buffers);
	return map(size_of(size));
}

static void *
take_idle(struct buffers *buffers, unsigned int size)
{
	void *memory = pop(&buffers->idle[size]);

	if (memory && size_of(size) >= LARGE)
		buffers->idle_large -= size_of(size);
	return memory ? memory : make(buffers, size);
}

static void
give_idle(struct buffers *buffers, void *memory, unsigned int size)
{
	push(&buffers->idle[size], memory);
	if (size_of(size) >= LARGE)
		buffers->idle_large += size_of(size);
}

static bool
take(struct buffers *buffers, unsigned int size, bool reserved, struct buffer *buffer)
{
	void *memory = reserved ? reserve_take(buffers->reserve, size) : take_idle(buffers, size);

	if (!memory)
		return false;
	buffers->taken += size_of(size);
	*buffer = (struct buffer){memory, size, reserved};
	return true;
}

bool
buffers_take(struct buffers *buffers, size_t length, struct buffer *buffer)
{
	unsigned int size = size_for(length);

	/* Whoever is alone gets what it needs. */
	if (buffers->taken > 0 && buffers->taken + size_of(size) > buffers->limit)
		return false;
	return take(buffers, size, buffers->reserve != NULL, buffer);
}

bool
buffers_take_first(struct buffers *buffers, size_t length, struct buffer *buffer)
{
	unsigned int size = size_for(length);

	return buffers_take(buffers, length, buffer) ||
	       (size_of(size) <= BUFFER_SPARE && take(buffers, size, false, buffer));
}

void
buffers_give(struct buffers *buffers, struct buffer *buffer)
{
	if (!buffer->memory)
		return;
	buffers->taken -= size_of(buffer->size);
	if (buffer->reserved)
		reserve_give(buffers->reserve, buffer->memory, buffer->size);
	else
		give_idle(buffers, buffer->memory, buffer->size);
	*buffer = (struct buffer){0};
}
