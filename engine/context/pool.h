/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The I/O contexts of an image.  They are made on demand up to a limit, and a thread that comes
 * back gets the one that it had, by nothing but a flag in that context's own cache line.
 */
#ifndef ENGINE_CONTEXT_POOL_H
#define ENGINE_CONTEXT_POOL_H

#include "engine/counters.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct image;
struct ioctx;
struct ring;

struct pool {
	uint64_t id;                              /* of all pools that this process ever had */
	unsigned int limit;                       /* most contexts; 0: no limit */
	alignas(64) _Atomic unsigned int waiters; /* threads that wait for a context */
	alignas(64) pthread_mutex_t mutex;        /* guards what follows */
	pthread_cond_t given;
	struct ioctx *contexts;
	unsigned int count;
	uint64_t retired[COUNTERS]; /* what contexts of event loops that are gone have counted */
	uint64_t no_more_until; /* CLOCK_MONOTONIC, ns: one more could not be made; not tried before
				   then */
	struct pool *next;      /* of all living pools; guarded by pool.c's own mutex */
};

/* NULL: no memory.  `limit`: most contexts; 0: no limit. */
struct pool *
pool_new(unsigned int limit);

/* Frees the contexts too; none may be taken.  NULL is fine. */
void
pool_free(struct pool *pool);

/*
 * Takes a context of the image for the calling thread and gives it back.  A thread gets the context
 * that it had before, so that threads share nothing; blocks while contexts= is exhausted.
 * Returns NULL when not even one context can be made.
 */
struct ioctx *
pool_take(struct image *image);
void
pool_give(struct image *image, struct ioctx *ctx);

/*
 * Makes a context for the calling thread's event loop, on the loop's ring (NULL: it has none); see
 * ioctx_new_hosted().  Returns 0 or -errno (said in the log).  pool_unhost() frees it; nothing may
 * be under way.
 */
int
pool_host(struct image *image, struct ring *ring, struct ioctx **ctx);
void
pool_unhost(struct image *image, struct ioctx *ctx);

/*
 * Makes all contexts that the configuration allows (contexts= must not be 0), and their buffers, so
 * that no request needs memory for them later.  Again is fine.  Returns 0, or -ENOMEM: not all
 * could be made.
 */
int
pool_reserve(struct image *image);

/*
 * Returns how many contexts the image has, with the sums of what they and those before them have
 * counted.  *registered: all have registered buffers, at least for requests of one chunk.
 */
unsigned int
pool_count(struct image *image, uint64_t counters[COUNTERS], bool *registered);

#endif
