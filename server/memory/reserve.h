/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that was set aside: all of it is there from the beginning. It is given out in blocks of
 * powers of 2; a block that is given back is joined with its idle neighbour (buddies), so that with
 * none taken, the largest blocks are there.
 */
#ifndef SERVER_MEMORY_RESERVE_H
#define SERVER_MEMORY_RESERVE_H

#include <stddef.h>

/* Blocks have 4 KiB << order, for orders below: 32 MiB at most. */
#define RESERVE_ORDERS 14

struct reserve;

/* `size`: bytes, at least 32 MiB; the rest beyond a multiple of that is left out. NULL: out of
 * memory. */
struct reserve *
reserve_new(size_t size);

/* All blocks must have been given back. NULL is fine. */
void
reserve_free(struct reserve *reserve);

/* Where its memory begins. */
char *
reserve_memory(const struct reserve *reserve);

/* A block, aligned to 4 KiB, with any content; NULL: none is left. */
void *
reserve_take(struct reserve *reserve, unsigned int order);
void
reserve_give(struct reserve *reserve, void *memory, unsigned int order);

#endif
