/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/memory.h"

#include "tests/simulation/call.h"
#include "tests/simulation/chance.h"
#include "tests/simulation/process.h"
#include "tests/simulation/trace.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define IN_USE UINT64_C(0x6e6264206d656d20)
#define FREED  UINT64_C(0x6e62642066726565)

unsigned int memory_scarcity;

/* Before each block. */
struct memory {
	uint64_t magic;
	size_t size;
	struct process *owner;
	struct memory *next, **before;
	void *base; /* what to free */
};

/* Mapped memory. */
struct region {
	char *start;
	size_t length, unmapped;
	struct region *next;
};

static struct memory *
memory_of(void *block)
{
	struct memory *memory = (struct memory *)block - 1;

	if (memory->magic != IN_USE)
		trace_fail("memory that is not in use is freed");
	return memory;
}

static void *
memory_align(size_t align, size_t size)
{
	struct process *process = process_self();
	struct memory *memory;
	uintptr_t at;
	char *base;

	if (align < 16)
		align = 16;
	base = malloc(size + sizeof(*memory) + align);
	if (!base) {
		errno = ENOMEM;
		return NULL;
	}
	at = ((uintptr_t)base + sizeof(*memory) + align - 1) / align * align;
	memory = (struct memory *)at - 1;
	*memory = (struct memory){.magic = IN_USE, .size = size, .owner = process, .base = base};
	if (process) {
		memory->next = process->memory;
		memory->before = &process->memory;
		if (memory->next)
			memory->next->before = &memory->next;
		process->memory = memory;
		process->allocated += size;
	}
	memset(memory + 1, 0xa5, size);
	return memory + 1;
}

void *
memory_take(size_t size)
{
	return memory_align(16, size);
}

static void
memory_release(struct memory *memory)
{
	if (memory->owner) {
		*memory->before = memory->next;
		if (memory->next)
			memory->next->before = memory->before;
		memory->owner->allocated -= memory->size;
	}
	memset(memory + 1, 0x5a, memory->size);
	memory->magic = FREED;
	free(memory->base);
}

void *
memory_resize(void *block, size_t size)
{
	struct memory *memory = block ? memory_of(block) : NULL;
	void *other = memory_take(size);

	if (!other || !memory)
		return other;
	memcpy(other, block, size < memory->size ? size : memory->size);
	memory_release(memory);
	return other;
}

void
memory_give(void *block)
{
	const int before = errno;

	if (block)
		memory_release(memory_of(block));
	errno = before;
}

void
memory_drop(struct process *process, bool well)
{
	struct region *region;

	if (well && process->memory) {
		const unsigned char *bytes = (const unsigned char *)(process->memory + 1);

		for (size_t i = 0; i < process->memory->size && i < 64; i++)
			fprintf(stderr, "%c", bytes[i] >= 32 && bytes[i] < 127 ? bytes[i] : '.');
		fputc('\n', stderr);
		trace_fail("the server ended and left %zu bytes of memory, the last %zu above",
			   process->allocated, process->memory->size);
	}
	while (process->memory)
		memory_release(process->memory);
	while ((region = process->regions) != NULL) {
		if (well && region->unmapped < region->length)
			trace_fail("the server ended and left %zu bytes mapped",
				   region->length - region->unmapped);
		munmap(region->start, region->length);
		process->regions = region->next;
		free(region);
	}
}

/* Returns whether a call of the server's fails. */
static bool
memory_lacks(void)
{
	if (!chance_once_in(memory_scarcity))
		return false;
	trace("there is no memory");
	errno = ENOMEM;
	return true;
}

CALL(void *, malloc, size_t size)
{
	return memory_lacks() ? NULL : memory_take(size);
}

CALL(void *, calloc, size_t count, size_t size)
{
	void *block = memory_lacks() ? NULL : memory_take(count * size);

	if (block)
		memset(block, 0, count * size);
	return block;
}

CALL(void *, realloc, void *block, size_t size)
{
	return memory_lacks() ? NULL : memory_resize(block, size);
}

CALL(void *, reallocarray, void *block, size_t count, size_t size)
{
	return memory_lacks() ? NULL : memory_resize(block, count * size);
}

CALL(void *, aligned_alloc, size_t align, size_t size)
{
	return memory_lacks() ? NULL : memory_align(align, size);
}

CALL(int, posix_memalign, void **block, size_t align, size_t size)
{
	*block = memory_lacks() ? NULL : memory_align(align, size);
	return *block ? 0 : ENOMEM;
}

CALL(void, free, void *block)
{
	memory_give(block);
}

CALL(char *, strdup, const char *text)
{
	const size_t size = strlen(text) + 1;
	char *copy = memory_lacks() ? NULL : memory_take(size);

	return copy ? memcpy(copy, text, size) : NULL;
}

CALL(char *, strndup, const char *text, size_t most)
{
	const size_t length = strnlen(text, most);
	char *copy = memory_lacks() ? NULL : memory_take(length + 1);

	if (!copy)
		return NULL;
	copy[length] = '\0';
	return memcpy(copy, text, length);
}

CALL(int, vasprintf, char **text, const char *format, va_list arguments)
{
	va_list again;
	int n;

	va_copy(again, arguments);
	n = vsnprintf(NULL, 0, format, again);
	va_end(again);
	*text = memory_lacks() ? NULL : memory_take((size_t)n + 1);
	return *text ? vsnprintf(*text, (size_t)n + 1, format, arguments) : -1;
}

CALL(int, asprintf, char **text, const char *format, ...)
{
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = world_vasprintf(text, format, arguments);
	va_end(arguments);
	return n;
}

CALL(int, mallopt, int what, int value)
{
	(void)what;
	(void)value;
	return 1;
}

/* ---- mapped memory, which is always anonymous */

CALL(void *, mmap, void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	struct process *process = process_self();
	struct region *region;

	if (memory_lacks())
		return MAP_FAILED;
	region = calloc(1, sizeof(*region));
	region->start = mmap(address, length, protection, flags | MAP_NORESERVE, fd, offset);
	region->length = (length + 4095) / 4096 * 4096;
	region->next = process->regions;
	process->regions = region;
	return region->start;
}

/* A part of a region stays mapped until its process is over, but without its bytes. */
CALL(int, munmap, void *address, size_t length)
{
	struct process *process = process_self();

	length = (length + 4095) / 4096 * 4096;
	for (struct region **at = &process->regions; *at; at = &(*at)->next) {
		struct region *region = *at;

		if ((char *)address < region->start ||
		    (char *)address >= region->start + region->length)
			continue;
		region->unmapped += length;
		if (region->unmapped < region->length)
			return madvise(address, length, MADV_DONTNEED);
		munmap(region->start, region->length);
		*at = region->next;
		free(region);
		return 0;
	}
	trace_fail("memory is unmapped that is not mapped");
}

CALL(int, madvise, void *address, size_t length, int advice)
{
	(void)address;
	(void)length;
	(void)advice;
	return 0;
}
