/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that is registered with a ring. The kernel then maps and holds its pages once instead of
 * for each operation. Only the thread of the ring uses this.
 */
#ifndef ENGINE_REGISTERED_H
#define ENGINE_REGISTERED_H

#include <stddef.h>

/* The place of memory that is registered nowhere. */
#define REGISTERED_NOWHERE (-1)

/* How far a piece of memory is registered, as its owner keeps it. */
struct registered {
	const char *end; /* the first byte of the memory that is not registered; NULL: none is */
	int place;       /* number in the ring's table; undefined if .end is NULL */
};

/* Returns the place of `length` bytes at `at`, which lie in the memory that `registered` (may be
 * NULL) tells of, or REGISTERED_NOWHERE. */
static inline int
registered_place(const struct registered *registered, const void *at, size_t length)
{
	return registered && (const char *)at + length <= registered->end ? registered->place
									  : REGISTERED_NOWHERE;
}

#endif
