/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/context/pool.h"

#include "engine/context/ioctx.h"
#include "engine/io/image_state.h"
#include "engine/io/ioctx_state.h"

#include "common/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The context that this thread used last. Its pool may be gone, so pool_id is compared before .ctx
 * is used. */
struct warm {
	uint64_t pool_id;
	struct ioctx *ctx;
};

static _Thread_local struct warm warm;

/* All existing pools, so that a thread that ends can disown its context. */
static pthread_mutex_t living_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct pool *living;
static uint64_t last_id;
static pthread_key_t thread_end;

/* Marks the context of a struct warm as nobody's, unless its pool is gone. Also runs when a thread
 * ends. */
static void
pool_disown(void *value)
{
	const struct warm *had = value;

	pthread_mutex_lock(&living_mutex);
	for (struct pool *pool = living; pool; pool = pool->next) {
		if (pool->id == had->pool_id)
			atomic_store(&had->ctx->owned, false);
	}
	pthread_mutex_unlock(&living_mutex);
}

/* The key is deleted when the library that this code is linked into is unloaded. Otherwise threads
 * that end later would call code that is gone. */
__attribute__((constructor)) static void
pool_make_key(void)
{
	if (pthread_key_create(&thread_end, pool_disown) != 0)
		abort();
}

__attribute__((destructor)) static void
pool_delete_key(void)
{
	pthread_key_delete(thread_end);
}

struct pool *
pool_new(unsigned int limit)
{
	struct pool *pool = aligned_alloc(alignof(struct pool), sizeof(*pool));

	if (!pool)
		return NULL;
	pool->limit = limit;
	atomic_init(&pool->waiters, 0);
	pthread_mutex_init(&pool->mutex, NULL);
	pthread_cond_init(&pool->given, NULL);
	pool->contexts = NULL;
	pool->count = 0;
	pool->no_more_until = 0;
	memset(pool->retired, 0, sizeof(pool->retired));
	pthread_mutex_lock(&living_mutex);
	pool->id = ++last_id;
	pool->next = living;
	living = pool;
	pthread_mutex_unlock(&living_mutex);
	return pool;
}

static void *
pool_free_context(void *ctx)
{
	ioctx_free(ctx);
	return NULL;
}

/* Frees all contexts in parallel, because the kernel needs tens of milliseconds to end each AIO
 * context. */
static void
pool_free_contexts(struct pool *pool)
{
	pthread_t *threads = calloc(pool->count, sizeof(*threads));
	unsigned int started = 0;

	while (pool->contexts) {
		struct ioctx *ctx = pool->contexts;

		assert(!atomic_load(&ctx->busy));
		pool->contexts = ctx->next;
		if (threads && pthread_create(&threads[started], NULL, pool_free_context, ctx) == 0)
			started++;
		else
			ioctx_free(ctx);
	}
	while (started > 0)
		pthread_join(threads[--started], NULL);
	free(threads);
}

void
pool_free(struct pool *pool)
{
	struct pool **at;

	if (!pool)
		return;
	pthread_mutex_lock(&living_mutex);
	for (at = &living; *at != pool; at = &(*at)->next)
		assert(*at);
	*at = pool->next;
	pthread_mutex_unlock(&living_mutex);

	if (pool->count > 0)
		pool_free_contexts(pool);
	pthread_cond_destroy(&pool->given);
	pthread_mutex_destroy(&pool->mutex);
	free(pool);
}

static bool
pool_claim(struct ioctx *ctx)
{
	bool free_ = false;

	return atomic_compare_exchange_strong(&ctx->busy, &free_, true);
}

/* Takes a free context, or returns NULL. With `ownerless`, takes only a context that no living
 * thread owns. The caller holds the mutex. */
static struct ioctx *
pool_find_free(struct pool *pool, bool ownerless)
{
	for (struct ioctx *ctx = pool->contexts; ctx; ctx = ctx->next) {
		if (ownerless && atomic_load(&ctx->owned))
			continue;
		if (pool_claim(ctx))
			return ctx;
	}
	return NULL;
}

/* The caller holds the mutex. */
static void
pool_enlist(struct pool *pool, struct ioctx *ctx)
{
	atomic_store(&ctx->busy, true);
	ctx->next = pool->contexts;
	pool->contexts = ctx;
	pool->count++;
}

/* Makes one more context, or returns NULL. After a failure, if there are contexts to wait for, it
 * is not tried again with every request. The caller holds the mutex. */
static struct ioctx *
pool_add(struct pool *pool, struct image *image)
{
	struct ioctx *ctx;

	if (pool->limit && pool->count >= pool->limit)
		return NULL;
	if (pool->count > 0 && pool->no_more_until &&
	    clock_ns(CLOCK_MONOTONIC) < pool->no_more_until)
		return NULL;
	if (ioctx_new(image, &ctx) < 0) {
		pool->no_more_until = clock_ns(CLOCK_MONOTONIC) + NS_PER_SECOND;
		return NULL;
	}
	pool_enlist(pool, ctx);
	return ctx;
}

/* Takes a free context; blocks while there are contexts and all are taken. The caller holds the
 * mutex. */
static struct ioctx *
pool_wait(struct pool *pool)
{
	struct ioctx *ctx;

	/* This must come before we look again: a thread that gives a context back after that sees
	 * that we wait (pool_give()). */
	atomic_fetch_add(&pool->waiters, 1);
	while ((ctx = pool_find_free(pool, false)) == NULL && pool->count > 0)
		pthread_cond_wait(&pool->given, &pool->mutex);
	atomic_fetch_sub(&pool->waiters, 1);
	return ctx;
}

int
pool_reserve(struct image *image)
{
	struct pool *pool = image->pool;
	struct ioctx *ctx = NULL;
	bool complete;

	assert(pool->limit > 0);
	pthread_mutex_lock(&pool->mutex);
	while (pool->count < pool->limit && (ctx = pool_add(pool, image)) != NULL) {
		ioctx_populate(ctx);
		atomic_store(&ctx->busy, false);
	}
	complete = pool->count >= pool->limit;
	pthread_mutex_unlock(&pool->mutex);
	return complete ? 0 : -ENOMEM;
}

int
pool_host(struct image *image, struct ring *ring, struct ioctx **result)
{
	struct pool *pool = image->pool;
	struct ioctx *ctx;
	int r = ioctx_new_hosted(image, ring, &ctx);

	if (r < 0)
		return r;
	pthread_mutex_lock(&pool->mutex);
	pool_enlist(pool, ctx);
	pthread_mutex_unlock(&pool->mutex);
	*result = ctx;
	return 0;
}

void
pool_unhost(struct image *image, struct ioctx *ctx)
{
	struct pool *pool = image->pool;
	struct ioctx **at;

	pthread_mutex_lock(&pool->mutex);
	for (at = &pool->contexts; *at != ctx; at = &(*at)->next)
		assert(*at);
	*at = ctx->next;
	pool->count--;
	for (unsigned int i = 0; i < COUNTERS; i++)
		pool->retired[i] += counter_read(&ctx->counters, i);
	pthread_mutex_unlock(&pool->mutex);
	ioctx_free(ctx);
}

struct ioctx *
pool_take(struct image *image)
{
	struct pool *pool = image->pool;
	struct ioctx *ctx;

	if (warm.pool_id == pool->id && pool_claim(warm.ctx))
		return warm.ctx;
	pthread_mutex_lock(&pool->mutex);
	ctx = pool_find_free(pool, true);
	if (!ctx)
		ctx = pool_add(pool, image);
	/* This thread gets the context the next time, too, and disowns the one that it owned. */
	if (ctx && warm.pool_id != pool->id) {
		if (warm.ctx)
			pool_disown(&warm);
		warm = (struct warm){pool->id, ctx};
		atomic_store(&ctx->owned, true);
		pthread_setspecific(thread_end, &warm);
	}
	if (!ctx)
		ctx = pool_wait(pool);
	pthread_mutex_unlock(&pool->mutex);
	return ctx;
}

void
pool_give(struct image *image, struct ioctx *ctx)
{
	struct pool *pool = image->pool;

	atomic_store(&ctx->busy, false);
	if (atomic_load(&pool->waiters) == 0)
		return;
	pthread_mutex_lock(&pool->mutex);
	pthread_cond_signal(&pool->given);
	pthread_mutex_unlock(&pool->mutex);
}

unsigned int
pool_count(struct image *image, uint64_t counters[COUNTERS], bool *registered,
	   const char **unregistered)
{
	struct pool *pool = image->pool;
	unsigned int count;

	pthread_mutex_lock(&pool->mutex);
	count = pool->count;
	*registered = count > 0;
	*unregistered = "";
	memcpy(counters, pool->retired, sizeof(pool->retired));
	for (const struct ioctx *ctx = pool->contexts; ctx; ctx = ctx->next) {
		const char *reason = ctx->unregistered ? atomic_load(ctx->unregistered) : NULL;

		*registered = *registered && ctx->unregistered && !reason;
		if (reason)
			*unregistered = reason;
		for (unsigned int i = 0; i < COUNTERS; i++)
			counters[i] += counter_read(&ctx->counters, i);
	}
	pthread_mutex_unlock(&pool->mutex);
	return count;
}
