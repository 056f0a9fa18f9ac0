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

void
pool_init(struct pool *pool, unsigned int limit);

/* Frees the contexts; none may be taken. */
void
pool_fini(struct pool *pool);

/* See image_reserve_contexts(). */
int
pool_reserve(struct pool *pool, struct image *image);

/* See image_host_context(). */
int
pool_host(struct pool *pool, struct image *image, struct ring *ring, struct ioctx **ctx);
void
pool_unhost(struct pool *pool, struct ioctx *ctx);

/* See image_take_context(). `image` owns the pool. */
struct ioctx *
pool_take(struct pool *pool, struct image *image);
void
pool_give(struct pool *pool, struct ioctx *ctx);

#endif
