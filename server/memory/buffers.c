/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/memory/buffers.h"

#include "server/memory/reserve.h"

#include "common/container_of.h"
#include "common/locked_memory.h"
#include "engine/backend/ring.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define SMALLEST   ((size_t)4096)
#define SMALL_SLAB ((size_t)1 << 20)

/*
 * From this size on, buffers are in huge pages if the kernel has them: a disk then transfers 128
 * KiB as one segment instead of 32, which has doubled the rate of large reads. Slabs are aligned to
 * the size of a huge page on most machines; elsewhere the kernel just uses small ones.
 */
#define LARGE      ((size_t)64 << 10)
#define LARGE_SLAB ((size_t)2 << 20)

/* Number of the largest size that is kept, and registered. Longer requests than are advertised are
 * rare, and their memory is of no use to others. */
#define LARGEST_KEPT (BUFFER_SIZES - 2)

/* Memory for buffers of one size: for many, or (from LARGE_SLAB on) for one. */
struct slab {
	char *memory;
	size_t length;      /* bytes */
	size_t used;        /* bytes that have pages, as far as it is known: to be registered */
	size_t asked;       /* bytes that its only buffer was taken for; 0: not all got a page */
	unsigned int taken; /* of its buffers */
	bool waits;         /* to be registered */
	struct registered registered;
	struct slab *next;
};

/* The first bytes of a buffer that is not taken. */
struct idle_buffer {
	struct idle_buffer *next;
	struct slab *slab;
};

static size_t
size_in_bytes(unsigned int size)
{
	return SMALLEST << size;
}

static unsigned int
size_for(size_t length)
{
	size_t pages = (length - 1) / SMALLEST;

	assert(length > 0 && length <= size_in_bytes(BUFFER_SIZES - 1));
	return pages > 0 ? 64 - (unsigned int)__builtin_clzll(pages) : 0;
}

static size_t
slab_length(unsigned int size)
{
	if (size_in_bytes(size) < LARGE)
		return SMALL_SLAB;
	return size_in_bytes(size) < LARGE_SLAB ? LARGE_SLAB : size_in_bytes(size);
}

static bool
fills_slab(unsigned int size)
{
	return size_in_bytes(size) >= LARGE_SLAB;
}

void
buffers_init(struct buffers *buffers, size_t limit, struct ring *ring)
{
	/* A user who may lock only little spends it on small requests, for which it matters most.
	 */
	*buffers = (struct buffers){
		.limit = limit,
		.ring = ring,
		.registers_large = locked_memory_is_plentiful(),
	};
}

/* ---- registered memory */

static void
register_memory(struct buffers *buffers, char *memory, size_t length, struct registered *registered)
{
	int place = ring_add_memory(buffers->ring, memory, length);

	if (place >= 0)
		*registered = (struct registered){memory + length, place};
}

static void
unregister_memory(struct buffers *buffers, const char *memory, struct registered *registered)
{
	if (registered->end)
		ring_remove_memory(buffers->ring, registered->place,
				   (size_t)(registered->end - memory));
	registered->end = NULL;
}

static size_t
registered_length(const struct slab *slab)
{
	return slab->registered.end ? (size_t)(slab->registered.end - slab->memory) : 0;
}

static void
let_wait(struct buffers *buffers, struct slab *slab)
{
	if (slab->waits || !buffers->ring)
		return;
	if (slab->length > SMALL_SLAB && !buffers->registers_large) {
		ring_memory_refused(buffers->ring, -ENOMEM);
		return;
	}
	slab->waits = true;
	buffers->unregistered++;
}

static void
stop_waiting(struct buffers *buffers, struct slab *slab)
{
	if (slab->waits)
		buffers->unregistered--;
	slab->waits = false;
}

void
buffers_register(struct buffers *buffers)
{
	struct slab *slab = buffers->slabs;

	/* The place of a buffer that is taken may be in operations that the kernel does not have
	 * yet. */
	while (slab && (!slab->waits || (slab->registered.end && slab->taken > 0)))
		slab = slab->next;
	if (!slab)
		return;
	stop_waiting(buffers, slab);
	unregister_memory(buffers, slab->memory, &slab->registered);
	register_memory(buffers, slab->memory, slab->used, &slab->registered);
}

int
buffers_reserve(struct buffers *buffers)
{
	size_t block = size_in_bytes(LARGEST_KEPT), count = buffers->limit / block;

	_Static_assert(LARGEST_KEPT + 1 == RESERVE_ORDERS, "a size is an order");
	buffers->reserve = reserve_new(buffers->limit);
	if (!buffers->reserve)
		return -ENOMEM;
	/* The kernel registers at most 1 GiB as one piece, so each of the reserve's largest blocks
	 * is one. Without memory for the list, or a ring, none is registered. */
	if (buffers->ring && buffers->registers_large)
		buffers->reserved = calloc(count, sizeof(*buffers->reserved));
	for (size_t i = 0; buffers->reserved && i < count; i++)
		register_memory(buffers, reserve_memory(buffers->reserve) + i * block, block,
				&buffers->reserved[i]);
	return 0;
}

/* ---- slabs */

static void *
memory_map(size_t length)
{
	void *memory =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* The address is a multiple of LARGE_SLAB. */
static void *
map_huge(size_t length)
{
	char *memory = memory_map(length + LARGE_SLAB);
	size_t before = -(uintptr_t)memory & (LARGE_SLAB - 1);

	if (!memory)
		return NULL;
	if (before > 0)
		munmap(memory, before);
	munmap(memory + before + length, LARGE_SLAB - before);
	/* Only advice: a kernel without huge pages refuses it, which does no harm. */
	madvise(memory + before, length, MADV_HUGEPAGE);
	return memory + before;
}

static void
idle_push(struct idle_buffer **list, void *memory, struct slab *slab)
{
	struct idle_buffer *idle = memory;

	*idle = (struct idle_buffer){*list, slab};
	*list = idle;
}

static bool
cut_slab(struct buffers *buffers, unsigned int size)
{
	struct slab *slab = malloc(sizeof(*slab));
	size_t length = slab_length(size);

	if (!slab)
		return false;
	*slab = (struct slab){.length = length, .next = buffers->slabs};
	slab->memory = length < LARGE_SLAB ? memory_map(length) : map_huge(length);
	if (!slab->memory) {
		free(slab);
		return false;
	}
	buffers->slabs = slab;
	buffers->idle_slabs++;
	buffers->mapped += length;
	for (size_t at = 0; at + size_in_bytes(size) <= length; at += size_in_bytes(size))
		idle_push(&buffers->idle[size], slab->memory + at, slab);
	if (fills_slab(size))
		return true; /* its pages are not there yet, and may be many: see give_part() */
	slab->used = length;
	let_wait(buffers, slab);
	return true;
}

static void
release_slabs(struct buffers *buffers)
{
	if (buffers->idle_slabs == 0)
		return;
	for (unsigned int size = 0; size < BUFFER_SIZES; size++) {
		for (struct idle_buffer **at = &buffers->idle[size]; *at;) {
			if ((*at)->slab->taken == 0)
				*at = (*at)->next;
			else
				at = &(*at)->next;
		}
	}
	for (struct slab **at = &buffers->slabs; *at;) {
		struct slab *slab = *at;

		if (slab->taken > 0) {
			at = &slab->next;
			continue;
		}
		*at = slab->next;
		stop_waiting(buffers, slab);
		unregister_memory(buffers, slab->memory, &slab->registered);
		munmap(slab->memory, slab->length);
		buffers->mapped -= slab->length;
		free(slab);
	}
	buffers->idle_slabs = 0;
}

void
buffers_fini(struct buffers *buffers)
{
	size_t block = size_in_bytes(LARGEST_KEPT), count = buffers->limit / block;

	assert(buffers->taken == 0);
	for (size_t i = 0; buffers->reserved && i < count; i++)
		unregister_memory(buffers, reserve_memory(buffers->reserve) + i * block,
				  &buffers->reserved[i]);
	free(buffers->reserved);
	reserve_free(buffers->reserve);
	release_slabs(buffers);
	assert(buffers->mapped == 0);
}

/* ---- taking and giving back */

/* Memory that was unmapped counts, too, as long as the kernel holds it. */
static bool
buffers_have_room(const struct buffers *buffers, size_t length)
{
	size_t held = buffers->ring ? ring_held(buffers->ring) : 0;

	return buffers->mapped + held + length <= buffers->limit;
}

static bool
take_part(struct buffers *buffers, unsigned int size, struct buffer *buffer)
{
	struct idle_buffer *idle = buffers->idle[size];

	if (!idle)
		return false;
	buffers->idle[size] = idle->next;
	if (idle->slab->taken++ == 0)
		buffers->idle_slabs--;
	*buffer = (struct buffer){
		.memory = idle, .registered = &idle->slab->registered, .size = size};
	return true;
}

static bool
map_alone(struct buffers *buffers, unsigned int size, struct buffer *buffer)
{
	*buffer = (struct buffer){
		.memory = size > LARGEST_KEPT ? map_huge(size_in_bytes(size))
					      : memory_map(size_in_bytes(size)),
		.size = size,
		.alone = true,
	};
	if (buffer->memory)
		buffers->mapped += size_in_bytes(size);
	return buffer->memory != NULL;
}

/* The functions that are not inline take no instructions of a buffer that is there. */
static __attribute__((noinline)) bool
take_new(struct buffers *buffers, unsigned int size, struct buffer *buffer)
{
	size_t length = slab_length(size);

	/* Idle ones of other sizes make room. */
	if (!buffers_have_room(buffers, length))
		release_slabs(buffers);
	/* There must not be ever more slabs of which a part each is kept. And where memory is made
	 * beforehand, only little is taken beyond it: if kept, it would be locked memory that was
	 * not counted. */
	if (buffers->reserve || size > LARGEST_KEPT || !buffers_have_room(buffers, length))
		return map_alone(buffers, size, buffer);
	return cut_slab(buffers, size) && take_part(buffers, size, buffer);
}

static struct slab *
slab_of(const struct buffer *buffer)
{
	return container_of(buffer->registered, struct slab, registered);
}

static __attribute__((noinline)) bool
take_reserved(struct buffers *buffers, unsigned int size, struct buffer *buffer)
{
	char *memory = reserve_take(buffers->reserve, size);

	if (!memory)
		return false;
	*buffer = (struct buffer){.memory = memory, .size = size, .reserved = true};
	if (buffers->reserved)
		buffer->registered =
			&buffers->reserved[(size_t)(memory - reserve_memory(buffers->reserve)) /
					   size_in_bytes(LARGEST_KEPT)];
	return true;
}

static __attribute__((noinline)) void
note_length(const struct buffer *buffer, size_t length)
{
	if (!buffer->reserved && !buffer->alone)
		slab_of(buffer)->asked = length;
}

/* A buffer that fills its slab is registered as far as requests have filled it, since pages that
 * are there cost a twentieth of the time. */
static __attribute__((noinline)) void
register_used(struct buffers *buffers, struct slab *slab)
{
	if (slab->used < slab->asked)
		slab->used = slab->asked;
	if (slab->used > registered_length(slab))
		let_wait(buffers, slab);
}

static void
give_part(struct buffers *buffers, const struct buffer *buffer)
{
	struct slab *slab = slab_of(buffer);

	idle_push(&buffers->idle[buffer->size], buffer->memory, slab);
	if (--slab->taken == 0)
		buffers->idle_slabs++;
	if (fills_slab(buffer->size))
		register_used(buffers, slab);
}

static __attribute__((noinline)) void
unmap_alone(struct buffers *buffers, const struct buffer *buffer)
{
	munmap(buffer->memory, size_in_bytes(buffer->size));
	buffers->mapped -= size_in_bytes(buffer->size);
}

static bool
buffers_take_size(struct buffers *buffers, unsigned int size, size_t length, bool reserved,
		  struct buffer *buffer)
{
	bool taken;

	if (reserved)
		taken = take_reserved(buffers, size, buffer);
	else
		taken = take_part(buffers, size, buffer) || take_new(buffers, size, buffer);
	if (!taken)
		return false;
	buffers->taken += size_in_bytes(size);
	if (fills_slab(size))
		note_length(buffer, length);
	return true;
}

size_t
buffers_longest(const struct buffers *buffers)
{
	size_t longest = size_in_bytes(BUFFER_SIZES - 1);

	return buffers->reserve || buffers->limit < longest ? size_in_bytes(LARGEST_KEPT) : longest;
}

bool
buffers_take(struct buffers *buffers, size_t length, struct buffer *buffer)
{
	unsigned int size = size_for(length);

	/* Whoever is alone gets what it needs. */
	if (buffers->taken > 0 && buffers->taken + size_in_bytes(size) > buffers->limit)
		return false;
	return buffers_take_size(buffers, size, length, buffers->reserve != NULL, buffer);
}

bool
buffers_take_first(struct buffers *buffers, size_t length, struct buffer *buffer)
{
	unsigned int size = size_for(length);

	return buffers_take(buffers, length, buffer) ||
	       (size_in_bytes(size) <= BUFFER_SPARE &&
		buffers_take_size(buffers, size, length, false, buffer));
}

void
buffers_not_filled(const struct buffer *buffer)
{
	if (buffer->memory && fills_slab(buffer->size))
		note_length(buffer, 0);
}

void
buffers_give(struct buffers *buffers, struct buffer *buffer)
{
	if (!buffer->memory)
		return;
	buffers->taken -= size_in_bytes(buffer->size);
	if (buffer->reserved)
		reserve_give(buffers->reserve, buffer->memory, buffer->size);
	else if (buffer->alone)
		unmap_alone(buffers, buffer);
	else
		give_part(buffers, buffer);
	*buffer = (struct buffer){0};
}
