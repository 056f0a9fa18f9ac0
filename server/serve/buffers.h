/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Page-aligned buffers for the data of requests, of one thread: taken and given back without a
 * system call once they are there, and never more than a limit, but for one small buffer for each
 * connection that would have none.  A request that gets none waits until one is given back.  They
 * are made when they are needed, or beforehand.
 */
#ifndef SERVER_SERVE_BUFFERS_H
#define SERVER_SERVE_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>

/* Sizes are powers of 2 from 4 KiB to 32 MiB, the longest payload of a request. */
#define BUFFER_SIZES 14

struct reserve;
struct slab;

struct buffer {
	void *memory;      /* NULL: none */
	unsigned int size; /* number of the size, 4 KiB << size */
	bool reserved;     /* made beforehand */
	bool alone;        /* unmapped when it is given back */
};

struct buffers {
	size_t limit;  /* bytes that may be taken at once */
	size_t taken;  /* bytes */
	size_t mapped; /* bytes that are there, but for those made beforehand; beyond the limit by
			  those taken at the most */
	size_t idle_large;        /* bytes of large buffers that are not taken */
	unsigned int idle_slabs;  /* of which no part is taken */
	void *idle[BUFFER_SIZES]; /* lists; each buffer begins with a pointer to the next */
	struct slab *slabs;       /* the small ones are cut from these */
	struct reserve *reserve;  /* where all come from if they were made beforehand, and the lists
				     stay empty; or NULL */
};

/* `limit`: bytes, at least 32 MiB. */
void
buffers_init(struct buffers *buffers, size_t limit);

/* Makes the memory for all beforehand, the limit rounded down to a multiple of 32 MiB; none may
 * have been taken yet. 0 or -ENOMEM. */
int
buffers_reserve(struct buffers *buffers);

/* All must have been given back. */
void
buffers_fini(struct buffers *buffers);

/* Sets *buffer to one of `length` bytes (1 to 32 MiB) or more.  False: not now. */
bool
buffers_take(struct buffers *buffers, size_t length, struct buffer *buffer);

/* Most bytes of a buffer that is to be had beyond the limit: the longest request of the kernel's
 * client, 1.25 MiB, fits. */
#define BUFFER_SPARE ((size_t)2 << 20)

/* The same for a connection that has no other, and so can't be waited for: beyond the limit if it
 * must be, up to BUFFER_SPARE bytes, which are not made beforehand. */
bool
buffers_take_first(struct buffers *buffers, size_t length, struct buffer *buffer);

/* Leaves none in *buffer. None is fine. */
void
buffers_give(struct buffers *buffers, struct buffer *buffer);

#endif
