/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD: the Nth allocation of the server's own code fails, or one in `rate`. The
 * allocations of the C library and of nbdkit don't fail.
 */
#include "tests/faults/shared.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

void *
__libc_malloc(size_t size);
void *
__libc_calloc(size_t number, size_t size);
void *
__libc_realloc(void *memory, size_t size);
void *
__libc_memalign(size_t align, size_t size);

static bool
fails(const void *caller)
{
	uint64_t number;

	if (!shared || !is_ours(caller))
		return false;
	number = atomic_fetch_add(&shared->allocations, 1) + 1;
	if (shared->allocation ? number != shared->allocation
			       : !atomic_load(&shared->armed) || draw() % shared->rate != 0)
		return false;
	count(NO_MEMORY);
	errno = ENOMEM;
	return true;
}

void *
malloc(size_t size)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *
calloc(size_t number, size_t size)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(number, size);
}

void *
realloc(void *memory, size_t size)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, size);
}

void *
reallocarray(void *memory, size_t number, size_t size)
{
	size_t all;

	if (__builtin_mul_overflow(number, size, &all) || fails(__builtin_return_address(0))) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_realloc(memory, all);
}

void *
aligned_alloc(size_t align, size_t size)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(align, size);
}

int
posix_memalign(void **memory, size_t align, size_t size)
{
	void *found = fails(__builtin_return_address(0)) ? NULL : __libc_memalign(align, size);

	if (!found)
		return ENOMEM;
	*memory = found;
	return 0;
}
