/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/serve/buffers.h"

#include "server/serve/reserve.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#define SMALLEST ((size_t)4096)
#define SLAB     ((size_t)1 << 20)
/* Smaller ones are cut from slabs, larger ones are mapped; both are unmapped when others need the
 * room. */
#define LARGE ((size_t)64 << 10)

/* Stands in the first page of a slab, whose address is a multiple of SLAB. */
struct slab {
	struct slab *next;
	unsigned int taken; /* of its parts, which have one size */
};

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
	buffers->mapped -= buffers->idle_large;
	buffers->idle_large = 0;
}

static struct slab *
slab_of(void *memory)
{
	return (struct slab *)((uintptr_t)memory & ~(uintptr_t)(SLAB - 1));
}

/* Takes parts of slabs that are to go from a list. */
static void
forget_parts(void **list)
{
	while (*list) {
		if (slab_of(*list)->taken == 0)
			pop(list);
		else
			list = *list; /* each begins with the pointer to the next */
	}
}

static void
release_slabs(struct buffers *buffers)
{
	if (buffers->idle_slabs == 0)
		return;
	for (unsigned int size = 0; size_of(size) < LARGE; size++)
		forget_parts(&buffers->idle[size]);
	for (struct slab **at = &buffers->slabs; *at;) {
		struct slab *slab = *at;

		if (slab->taken > 0) {
			at = &slab->next;
			continue;
		}
		*at = slab->next;
		munmap(slab, SLAB);
		buffers->mapped -= SLAB;
	}
	buffers->idle_slabs = 0;
}

void
buffers_fini(struct buffers *buffers)
{
	assert(buffers->taken == 0);
	reserve_free(buffers->reserve);
	release_large(buffers);
	release_slabs(buffers);
	assert(buffers->mapped == 0);
}

static void *
map(size_t length)
{
	void *memory =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* The address is a multiple of its size. */
static void *
map_slab(void)
{
	char *memory = map(2 * SLAB);
	size_t before = -(uintptr_t)memory & (SLAB - 1);

	if (!memory)
		return NULL;
	if (before > 0)
		munmap(memory, before);
	munmap(memory + before + SLAB, SLAB - before);
	return memory + before;
}

static void
cut_slab(struct buffers *buffers, unsigned int size)
{
	struct slab *slab = map_slab();

	if (!slab)
		return;
	*slab = (struct slab){.next = buffers->slabs};
	buffers->slabs = slab;
	buffers->idle_slabs++;
	buffers->mapped += SLAB;
	for (size_t at = SMALLEST; at + size_of(size) <= SLAB; at += size_of(size))
		push(&buffers->idle[size], (char *)slab + at);
}

static bool
has_room(const struct buffers *buffers, size_t length)
{
	return buffers->mapped + length <= buffers->limit;
}

/* Idle ones of other sizes make room, of the same kind first. */
static void
make_room(struct buffers *buffers, size_t length, bool large)
{
	if (!has_room(buffers, length) && large)
		release_large(buffers);
	if (!has_room(buffers, length))
		release_slabs(buffers);
	if (!has_room(buffers, length))
		release_large(buffers);
}

static void *
take_part(struct buffers *buffers, unsigned int size)
{
	void *memory = pop(&buffers->idle[size]);

	if (memory && slab_of(memory)->taken++ == 0)
		buffers->idle_slabs--;
	return memory;
}

static bool
map_alone(struct buffers *buffers, struct buffer *buffer)
{
	buffer->memory = map(size_of(buffer->size));
	if (buffer->memory)
		buffers->mapped += size_of(buffer->size);
	return buffer->memory != NULL;
}

static bool
take_small(struct buffers *buffers, struct buffer *buffer)
{
	buffer->memory = take_part(buffers, buffer->size);
	if (buffer->memory)
		return true;
	make_room(buffers, SLAB, false);
	/* There must not be ever more slabs of which a part each is kept.  And where memory is made
	 * beforehand, only little is taken beyond it. */
	buffer->alone = buffers->reserve || !has_room(buffers, SLAB);
	if (buffer->alone)
		return map_alone(buffers, buffer);
	cut_slab(buffers, buffer->size);
	buffer->memory = take_part(buffers, buffer->size);
	return buffer->memory != NULL;
}

static bool
take_large(struct buffers *buffers, struct buffer *buffer)
{
	buffer->memory = pop(&buffers->idle[buffer->size]);
	if (buffer->memory) {
		buffers->idle_large -= size_of(buffer->size);
		return true;
	}
	make_room(buffers, size_of(buffer->size), true);
	/* If kept, it would be locked memory that was not counted. */
	buffer->alone = buffers->reserve != NULL;
	return map_alone(buffers, buffer);
}

static void
give_idle(struct buffers *buffers, const struct buffer *buffer)
{
	size_t length = size_of(buffer->size);

	/* Beyond the limit nothing idle is kept. */
	if (buffer->alone || (length >= LARGE && buffers->mapped > buffers->limit)) {
		munmap(buffer->memory, length);
		buffers->mapped -= length;
		return;
	}
	push(&buffers->idle[buffer->size], buffer->memory);
	if (length >= LARGE)
		buffers->idle_large += length;
	else if (--slab_of(buffer->memory)->taken == 0)
		buffers->idle_slabs++;
}

static bool
take(struct buffers *buffers, unsigned int size, bool reserved, struct buffer *buffer)
{
	bool taken;

	*buffer = (struct buffer){.size = size, .reserved = reserved};
	if (reserved)
		taken = (buffer->memory = reserve_take(buffers->reserve, size)) != NULL;
	else
		taken = size_of(size) < LARGE ? take_small(buffers, buffer)
					      : take_large(buffers, buffer);
	if (taken)
		buffers->taken += size_of(size);
	else
		*buffer = (struct buffer){0};
	return taken;
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
		give_idle(buffers, buffer);
	*buffer = (struct buffer){0};
}
