/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/engine/pool_fixture.h"

#include "tests/unit/log_capture.h"

#include <check.h>
#include <sched.h>

struct fake_image disk;

void
open_limited(unsigned int contexts)
{
	log_capture_begin();
	fake_image_open(&disk, &(struct fake_facts){.contexts = contexts, .depth = 2});
}

void
close_disk(void)
{
	fake_image_close(&disk);
	log_capture_end();
}

struct ioctx *
take(void)
{
	return pool_take(disk.image);
}

void
give(struct ioctx *ctx)
{
	pool_give(disk.image, ctx);
}

unsigned int
context_count(struct image *image)
{
	unsigned int count;

	pthread_mutex_lock(&image->pool->mutex);
	count = image->pool->count;
	pthread_mutex_unlock(&image->pool->mutex);
	return count;
}

static void *
work(void *data)
{
	struct taker *taker = data;

	pthread_mutex_lock(&taker->mutex);
	while (taker->order != LEAVE) {
		if (taker->order == TAKE) {
			struct ioctx *ctx;

			pthread_mutex_unlock(&taker->mutex);
			ctx = take();
			pthread_mutex_lock(&taker->mutex);
			taker->ctx = ctx;
			taker->took = true;
			taker->order = REST;
		} else if (taker->order == GIVE) {
			give(taker->ctx);
			taker->order = REST;
		}
		pthread_cond_broadcast(&taker->changed);
		if (taker->order == REST)
			pthread_cond_wait(&taker->changed, &taker->mutex);
	}
	pthread_mutex_unlock(&taker->mutex);
	return NULL;
}

void
taker_start(struct taker *taker)
{
	*taker = (struct taker){.mutex = PTHREAD_MUTEX_INITIALIZER,
				.changed = PTHREAD_COND_INITIALIZER};
	ck_assert_int_eq(pthread_create(&taker->thread, NULL, work, taker), 0);
}

void
taker_order(struct taker *taker, int order)
{
	pthread_mutex_lock(&taker->mutex);
	taker->order = order;
	taker->took = false;
	pthread_cond_broadcast(&taker->changed);
	pthread_mutex_unlock(&taker->mutex);
}

struct ioctx *
taker_context(struct taker *taker)
{
	struct ioctx *ctx;

	pthread_mutex_lock(&taker->mutex);
	while (!taker->took)
		pthread_cond_wait(&taker->changed, &taker->mutex);
	ctx = taker->ctx;
	pthread_mutex_unlock(&taker->mutex);
	return ctx;
}

void
taker_give(struct taker *taker)
{
	taker_order(taker, GIVE);
	pthread_mutex_lock(&taker->mutex);
	while (taker->order != REST)
		pthread_cond_wait(&taker->changed, &taker->mutex);
	pthread_mutex_unlock(&taker->mutex);
}

void
taker_end(struct taker *taker)
{
	taker_order(taker, LEAVE);
	pthread_join(taker->thread, NULL);
}

void
await_waiters(unsigned int count)
{
	while (atomic_load(&disk.image->pool->waiters) != count)
		sched_yield();
}
