/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The I/O contexts of an image. They are made on demand, up to a limit. A thread that comes back
 * gets the context that it had, which costs no more than a flag in that context's own cache line.
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
	uint64_t id;        /* unique among all pools that this process ever had */
	unsigned int limit; /* the most contexts; 0: no limit */
	alignas(64) _Atomic unsigned int waiters; /* number of threads that wait for a context */
	alignas(64) pthread_mutex_t mutex;        /* guards the members below */
	pthread_cond_t given;
	struct ioctx *contexts;
	unsigned int count;
	uint64_t retired[COUNTERS]; /* sums of the counters of freed hosted contexts */
	uint64_t no_more_until; /* CLOCK_MONOTONIC, ns: a context could not be made; not tried again
				   before then */
	struct pool *next;      /* list of all existing pools; guarded by pool.c's own mutex */
};

/* Makes a pool without contexts. `limit`: the most contexts; 0: no limit. Returns NULL if there is
 * no memory; the caller frees the pool with pool_free(). */
struct pool *
pool_new(unsigned int limit);

/* Frees the pool and its contexts, none of which may be taken. NULL is allowed. */
void
pool_free(struct pool *pool);

/*
 * Takes a context of the image for the calling thread, which gives it back with pool_give(). A
 * thread gets the context that it had before, so that threads share nothing. Blocks while all
 * contexts that contexts= allows are taken. Returns NULL if not even one context can be made.
 */
struct ioctx *
pool_take(struct image *image);
void
pool_give(struct image *image, struct ioctx *ctx);

/*
 * Makes a context for the calling thread's event loop, on the loop's ring (NULL: the loop has
 * none); see ioctx_new_hosted(). Returns 0 with *ctx, or -errno, which is logged. pool_unhost()
 * frees the context, of which no operation may then be in flight.
 */
int
pool_host(struct image *image, struct ring *ring, struct ioctx **ctx);
void
pool_unhost(struct image *image, struct ioctx *ctx);

/*
 * Makes all contexts that the configuration allows (contexts= must not be 0), and their buffers, so
 * that no request needs memory for them later. May be called again. Returns 0, or -ENOMEM if not
 * all contexts could be made.
 */
int
pool_reserve(struct image *image);

/*
 * Returns how many contexts the image has. Sets `counters` to the sums over these contexts and the
 * freed ones, *registered to whether there are contexts, and all of them register the memory of
 * their requests, and *unregistered to why they do not, or not for all memory ("": no reason; a
 * static string).
 */
unsigned int
pool_count(struct image *image, uint64_t counters[COUNTERS], bool *registered,
	   const char **unregistered);

#endif
