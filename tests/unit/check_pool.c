/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which thread gets which context.
 */
#include "engine/context/pool.h"

#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static struct fake_image disk;

static void
open_limited(unsigned int contexts)
{
	log_capture_begin();
	fake_image_open(&disk, &(struct fake_facts){.contexts = contexts, .depth = 2});
}

static void
close_disk(void)
{
	fake_image_close(&disk);
	log_capture_end();
}

static struct ioctx *
take(void)
{
	return pool_take(disk.image);
}

static void
give(struct ioctx *ctx)
{
	pool_give(disk.image, ctx);
}

static unsigned int
context_count(struct image *image)
{
	unsigned int count;

	pthread_mutex_lock(&image->pool->mutex);
	count = image->pool->count;
	pthread_mutex_unlock(&image->pool->mutex);
	return count;
}

/* A thread that takes a context when told, and gives it back when told. */
struct worker {
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	enum {
		REST,
		TAKE,
		GIVE,
		LEAVE
	} order;
	struct ioctx *ctx;
	bool took; /* whatever it got */
};

static void *
work(void *data)
{
	struct worker *worker = data;

	pthread_mutex_lock(&worker->mutex);
	while (worker->order != LEAVE) {
		if (worker->order == TAKE) {
			struct ioctx *ctx;

			pthread_mutex_unlock(&worker->mutex);
			ctx = take();
			pthread_mutex_lock(&worker->mutex);
			worker->ctx = ctx;
			worker->took = true;
			worker->order = REST;
		} else if (worker->order == GIVE) {
			give(worker->ctx);
			worker->order = REST;
		}
		pthread_cond_broadcast(&worker->changed);
		if (worker->order == REST)
			pthread_cond_wait(&worker->changed, &worker->mutex);
	}
	pthread_mutex_unlock(&worker->mutex);
	return NULL;
}

static void
worker_start(struct worker *worker)
{
	*worker = (struct worker){.mutex = PTHREAD_MUTEX_INITIALIZER,
				  .changed = PTHREAD_COND_INITIALIZER};
	ck_assert_int_eq(pthread_create(&worker->thread, NULL, work, worker), 0);
}

static void
worker_order(struct worker *worker, int order)
{
	pthread_mutex_lock(&worker->mutex);
	worker->order = order;
	worker->took = false;
	pthread_cond_broadcast(&worker->changed);
	pthread_mutex_unlock(&worker->mutex);
}

static struct ioctx *
worker_context(struct worker *worker)
{
	struct ioctx *ctx;

	pthread_mutex_lock(&worker->mutex);
	while (!worker->took)
		pthread_cond_wait(&worker->changed, &worker->mutex);
	ctx = worker->ctx;
	pthread_mutex_unlock(&worker->mutex);
	return ctx;
}

static void
worker_give(struct worker *worker)
{
	worker_order(worker, GIVE);
	pthread_mutex_lock(&worker->mutex);
	while (worker->order != REST)
		pthread_cond_wait(&worker->changed, &worker->mutex);
	pthread_mutex_unlock(&worker->mutex);
}

static void
worker_end(struct worker *worker)
{
	worker_order(worker, LEAVE);
	pthread_join(worker->thread, NULL);
}

static void
await_waiters(unsigned int count)
{
	while (atomic_load(&disk.image->pool->waiters) != count)
		sched_yield();
}

START_TEST(thread_gets_the_context_that_it_had)
{
	struct ioctx *ctx;

	open_limited(0);
	ctx = take();
	ck_assert_ptr_nonnull(ctx);
	give(ctx);
	for (unsigned int i = 0; i < 3; i++) {
		ck_assert_ptr_eq(take(), ctx);
		give(ctx);
	}
	ck_assert_uint_eq(context_count(disk.image), 1);
	close_disk();
}
END_TEST

START_TEST(threads_keep_to_contexts_of_their_own)
{
	struct worker other;
	struct ioctx *mine, *its;

	open_limited(0);
	worker_start(&other);
	mine = take();
	worker_order(&other, TAKE);
	its = worker_context(&other);
	ck_assert_ptr_ne(mine, its);
	give(mine);
	worker_give(&other);
	for (unsigned int i = 0; i < 3; i++) {
		worker_order(&other, TAKE);
		ck_assert_ptr_eq(worker_context(&other), its);
		worker_give(&other);
		ck_assert_ptr_eq(take(), mine);
		give(mine);
	}
	worker_end(&other);
	ck_assert_uint_eq(context_count(disk.image), 2);
	close_disk();
}
END_TEST

START_TEST(idle_context_of_a_living_thread_is_left_to_it)
{
	struct worker other;
	struct ioctx *mine;

	open_limited(0);
	mine = take();
	give(mine);
	worker_start(&other);
	worker_order(&other, TAKE);
	ck_assert_ptr_ne(worker_context(&other), mine);
	worker_give(&other);
	worker_end(&other);
	close_disk();
}
END_TEST

START_TEST(thread_that_takes_two_gets_two)
{
	struct ioctx *first, *second_;

	open_limited(0);
	first = take();
	second_ = take();
	ck_assert_ptr_ne(first, second_);
	give(first);
	give(second_);
	ck_assert_ptr_eq(take(), first);
	give(first);
	close_disk();
}
END_TEST

START_TEST(context_of_an_ended_thread_is_used_again)
{
	struct ioctx *mine;

	open_limited(0);
	mine = take();
	for (unsigned int i = 0; i < 50; i++) {
		struct worker worker;

		worker_start(&worker);
		worker_order(&worker, TAKE);
		ck_assert_ptr_nonnull(worker_context(&worker));
		worker_give(&worker);
		worker_end(&worker);
	}
	give(mine);
	ck_assert_uint_eq(context_count(disk.image), 2);
	close_disk();
}
END_TEST

START_TEST(limit_makes_a_thread_wait_until_one_is_given_back)
{
	struct worker holder, waiter;
	struct ioctx *mine, *its;

	open_limited(2);
	worker_start(&holder);
	worker_start(&waiter);
	mine = take();
	worker_order(&holder, TAKE);
	its = worker_context(&holder);
	worker_order(&waiter, TAKE);
	await_waiters(1);
	ck_assert_uint_eq(context_count(disk.image), 2);
	worker_give(&holder);
	ck_assert_ptr_eq(worker_context(&waiter), its);
	ck_assert_uint_eq(atomic_load(&disk.image->pool->waiters), 0);
	give(mine);
	worker_give(&waiter);
	worker_end(&holder);
	worker_end(&waiter);
	close_disk();
}
END_TEST

START_TEST(each_that_is_given_back_serves_one_who_waits)
{
	struct worker waiters[3];
	unsigned int served = 0;
	struct ioctx *ctx;

	open_limited(1);
	ctx = take();
	for (unsigned int i = 0; i < 3; i++) {
		worker_start(&waiters[i]);
		worker_order(&waiters[i], TAKE);
	}
	await_waiters(3);
	give(ctx);
	for (unsigned int i = 0; served < 3; i = (i + 1) % 3) {
		bool has;

		pthread_mutex_lock(&waiters[i].mutex);
		has = waiters[i].took;
		waiters[i].took = false;
		pthread_mutex_unlock(&waiters[i].mutex);
		if (!has)
			continue;
		ck_assert_ptr_eq(waiters[i].ctx, ctx);
		worker_give(&waiters[i]);
		served++;
	}
	for (unsigned int i = 0; i < 3; i++)
		worker_end(&waiters[i]);
	ck_assert_uint_eq(atomic_load(&disk.image->pool->waiters), 0);
	close_disk();
}
END_TEST

static atomic_bool enough;

/* Gives its context back for no longer than it takes to ask again. */
static void *
hog(void *data)
{
	(void)data;
	while (!atomic_load(&enough)) {
		struct ioctx *ctx = take();

		nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
		give(ctx);
	}
	return NULL;
}

START_TEST(thread_that_always_comes_back_at_once_starves_nobody)
{
	struct timespec before, after;
	pthread_t thread;

	open_limited(1);
	give(take()); /* this thread has it as its own, but is slow: */
	ck_assert_int_eq(pthread_create(&thread, NULL, hog, NULL), 0);
	clock_gettime(CLOCK_MONOTONIC, &before);
	for (unsigned int i = 0; i < 20; i++) {
		give(take());
		nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
	}
	clock_gettime(CLOCK_MONOTONIC, &after);
	atomic_store(&enough, true);
	pthread_join(thread, NULL);
	ck_assert_int_lt(after.tv_sec - before.tv_sec, 5);
	close_disk();
}
END_TEST

START_TEST(owner_that_always_comes_back_at_once_starves_nobody)
{
	struct timespec before, after;
	struct worker waiter;
	pthread_t thread;

	open_limited(1);
	ck_assert_int_eq(pthread_create(&thread, NULL, hog, NULL), 0);
	while (context_count(disk.image) == 0)
		sched_yield();
	worker_start(&waiter);
	clock_gettime(CLOCK_MONOTONIC, &before);
	for (unsigned int i = 0; i < 20; i++) {
		worker_order(&waiter, TAKE);
		ck_assert_ptr_nonnull(worker_context(&waiter));
		worker_give(&waiter);
	}
	clock_gettime(CLOCK_MONOTONIC, &after);
	atomic_store(&enough, true);
	pthread_join(thread, NULL);
	worker_end(&waiter);
	ck_assert_int_lt(after.tv_sec - before.tv_sec, 5);
	close_disk();
}
END_TEST

START_TEST(thread_that_alternates_between_images_needs_one_context_of_each)
{
	struct fake_image other;

	open_limited(0);
	fake_image_open(&other, &(struct fake_facts){.depth = 1});
	for (unsigned int i = 0; i < 20; i++) {
		struct ioctx *ctx = take(), *its = pool_take(other.image);

		ck_assert_ptr_eq(ctx->image, disk.image);
		ck_assert_ptr_eq(its->image, other.image);
		pool_give(other.image, its);
		give(ctx);
	}
	ck_assert_uint_eq(context_count(disk.image), 1);
	ck_assert_uint_eq(context_count(other.image), 1);
	fake_image_close(&other);
	close_disk();
}
END_TEST

START_TEST(context_of_a_closed_image_is_not_taken_for_a_new_ones)
{
	for (unsigned int i = 0; i < 10; i++) {
		struct ioctx *ctx;

		open_limited(0); /* likely where the one before it was */
		ctx = take();
		ck_assert_ptr_eq(ctx->image, disk.image);
		ck_assert_uint_eq(context_count(disk.image), 1);
		give(ctx);
		close_disk();
	}
}
END_TEST

START_TEST(thread_may_end_after_its_image_is_closed)
{
	struct fake_image other;
	struct worker worker;

	fake_image_open(&other, &(struct fake_facts){.depth = 1});
	open_limited(0);
	worker_start(&worker);
	worker_order(&worker, TAKE);
	ck_assert_ptr_nonnull(worker_context(&worker));
	worker_give(&worker);
	close_disk();
	worker_end(&worker);
	fake_image_close(&other);
}
END_TEST

/* Until limit_descriptors(false) no descriptor can be opened. */
static void
limit_descriptors(bool limit)
{
	static struct rlimit before;
	struct rlimit none;

	if (limit)
		ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, limit ? &none : &before), 0);
}

START_TEST(without_descriptors_there_is_no_first_context)
{
	struct ioctx *ctx;

	open_limited(0);
	limit_descriptors(true);
	ctx = take();
	limit_descriptors(false);
	ck_assert_ptr_null(ctx);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING,
				  "disk.img: no further I/O context: Too many open files"));
	ctx = take();
	ck_assert_ptr_nonnull(ctx);
	give(ctx);
	close_disk();
}
END_TEST

START_TEST(without_descriptors_a_thread_waits_for_a_context_that_there_is)
{
	struct worker waiter;
	struct ioctx *ctx;

	open_limited(0);
	ctx = take();
	limit_descriptors(true);
	worker_start(&waiter);
	worker_order(&waiter, TAKE);
	await_waiters(1);
	give(ctx);
	ck_assert_ptr_eq(worker_context(&waiter), ctx);
	limit_descriptors(false);
	worker_give(&waiter);
	worker_end(&waiter);
	close_disk();
}
END_TEST

static void *
take_and_give(void *data)
{
	(void)data;
	for (unsigned int i = 0; i < 400; i++) {
		struct ioctx *ctx = take();

		/* Not atomic: whoever else had it would spoil it. */
		ck_assert_uint_eq(ctx->queued, 0);
		ctx->queued = 1;
		if (i % 8 == 0)
			sched_yield();
		ck_assert_uint_eq(ctx->queued, 1);
		ctx->queued = 0;
		give(ctx);
	}
	return NULL;
}

START_TEST(reserved_contexts_are_there_before_they_are_needed)
{
	struct ioctx *taken[3];

	open_limited(3);
	ck_assert_int_eq(pool_reserve(disk.image), 0);
	ck_assert_uint_eq(context_count(disk.image), 3);
	ck_assert_int_eq(pool_reserve(disk.image), 0);
	for (unsigned int i = 0; i < 3; i++) {
		taken[i] = take();
		ck_assert_ptr_nonnull(taken[i]);
	}
	ck_assert_uint_eq(context_count(disk.image), 3);
	for (unsigned int i = 0; i < 3; i++)
		give(taken[i]);
	close_disk();
}
END_TEST

START_TEST(no_two_threads_have_one_context)
{
	pthread_t threads[6];

	open_limited(2);
	for (unsigned int i = 0; i < 6; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, take_and_give, NULL), 0);
	for (unsigned int i = 0; i < 6; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(context_count(disk.image), 2);
	close_disk();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "warm"},
		{.test = thread_gets_the_context_that_it_had},
		{.test = threads_keep_to_contexts_of_their_own},
		{.test = idle_context_of_a_living_thread_is_left_to_it},
		{.test = thread_that_takes_two_gets_two},
		{.test = context_of_an_ended_thread_is_used_again},
		{.name = "limit"},
		{.test = limit_makes_a_thread_wait_until_one_is_given_back},
		{.test = each_that_is_given_back_serves_one_who_waits},
		{.test = thread_that_always_comes_back_at_once_starves_nobody},
		{.test = owner_that_always_comes_back_at_once_starves_nobody},
		{.test = without_descriptors_there_is_no_first_context},
		{.test = without_descriptors_a_thread_waits_for_a_context_that_there_is},
		{.test = reserved_contexts_are_there_before_they_are_needed},
		{.test = no_two_threads_have_one_context},
		{.name = "images"},
		{.test = thread_that_alternates_between_images_needs_one_context_of_each},
		{.test = context_of_a_closed_image_is_not_taken_for_a_new_ones},
		{.test = thread_may_end_after_its_image_is_closed},
		{0},
	};

	return suite_run("pool", cases);
}
