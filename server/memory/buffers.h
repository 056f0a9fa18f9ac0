/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Page-aligned buffers for the data of requests, of one thread: taken and given back without a
 * system call once they are there, and never more than a limit, but for one small buffer for each
 * connection that would have none. A request that gets none waits until one is given back. They are
 * made when they are needed, or beforehand. Those that are kept are registered with the ring of the
 * thread's event loop.
 */
#ifndef SERVER_MEMORY_BUFFERS_H
#define SERVER_MEMORY_BUFFERS_H

#include "engine/registered.h"

#include <stdbool.h>
#include <stddef.h>

/* Sizes are powers of 2 from 4 KiB to 64 MiB, the longest payload of a request. Those of the
 * largest size are not kept. */
#define BUFFER_SIZES 15

struct idle_buffer;
struct reserve;
struct ring;
struct slab;

struct buffer {
	void *memory; /* NULL: none */
	/* How far it is registered with the ring, for the ios that use it. NULL: nowhere. */
	const struct registered *registered;
	unsigned int size; /* number of the size, 4 KiB << size */
	bool reserved;     /* made beforehand */
	bool alone;        /* unmapped when it is given back */
};

struct buffers {
	size_t limit;  /* bytes that may be taken at once */
	size_t taken;  /* bytes */
	size_t mapped; /* bytes that are there, but for those made beforehand; beyond the limit by
			  those taken at the most */
	unsigned int idle_slabs;                /* of which no part is taken */
	struct idle_buffer *idle[BUFFER_SIZES]; /* lists */
	struct slab *slabs;                     /* all but those alone are cut from these */
	struct reserve *reserve; /* where all come from if they were made beforehand, and the lists
				    stay empty; or NULL */
	struct registered *reserved; /* that of each block of the reserve; NULL: none */
	struct ring *ring;           /* that registers them, or NULL */
	bool registers_large;        /* not only those below 64 KiB */
	unsigned int unregistered;   /* slabs for buffers_register() */
};

/* `limit`: bytes, at least 32 MiB.  `ring`: the thread's, which must outlive them, or NULL. */
void
buffers_init(struct buffers *buffers, size_t limit, struct ring *ring);

/* Makes the memory for all beforehand, the limit rounded down to a multiple of 32 MiB; none may
 * have been taken yet. 0 or -ENOMEM. */
int
buffers_reserve(struct buffers *buffers);

/* All must have been given back. */
void
buffers_fini(struct buffers *buffers);

/* Returns the most bytes of a buffer that can be had: 64 MiB; or 32 MiB if the limit is less than
 * that, or all were made beforehand. */
size_t
buffers_longest(const struct buffers *buffers);

/* Sets *buffer, which has none, to one of `length` bytes (1 to buffers_longest()) or more. False:
 * not now. */
bool
buffers_take(struct buffers *buffers, size_t length, struct buffer *buffer);

/* Most bytes of a buffer that is to be had beyond the limit: the longest request of the kernel's
 * client, 1.25 MiB, fits. */
#define BUFFER_SPARE ((size_t)2 << 20)

/* The same for a connection that has no other, and so can't be waited for: beyond the limit if it
 * must be, up to BUFFER_SPARE bytes, which are not made beforehand. */
bool
buffers_take_first(struct buffers *buffers, size_t length, struct buffer *buffer);

/* Tells, before the buffer is given back, that some of its bytes were not written: their pages may
 * not be there, and to register those would stop the loop for 100 milliseconds. None is fine. */
void
buffers_not_filled(const struct buffer *buffer);

/* Leaves none in *buffer. None is fine. */
void
buffers_give(struct buffers *buffers, struct buffer *buffer);

/* Registers one slab of those that wait for it, which takes less than a millisecond. To be called
 * once in each turn of the loop while buffers->unregistered is not 0. */
void
buffers_register(struct buffers *buffers);

#endif
