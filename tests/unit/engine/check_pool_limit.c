/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The number of contexts: threads beyond the limit wait, and none waits for ever.
 */
#include "engine/context/pool.h"

#include "tests/lib/suite.h"
#include "tests/unit/engine/pool_fixture.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

START_TEST(limit_makes_a_thread_wait_until_one_is_given_back)
{
	struct taker holder, waiter;
	struct ioctx *mine, *its;

	open_limited(2);
	taker_start(&holder);
	taker_start(&waiter);
	mine = take();
	taker_order(&holder, TAKE);
	its = taker_context(&holder);
	taker_order(&waiter, TAKE);
	await_waiters(1);
	ck_assert_uint_eq(context_count(disk.image), 2);
	taker_give(&holder);
	ck_assert_ptr_eq(taker_context(&waiter), its);
	ck_assert_uint_eq(atomic_load(&disk.image->pool->waiters), 0);
	give(mine);
	taker_give(&waiter);
	taker_end(&holder);
	taker_end(&waiter);
	close_disk();
}
END_TEST

START_TEST(each_that_is_given_back_serves_one_who_waits)
{
	struct taker waiters[3];
	unsigned int served = 0;
	struct ioctx *ctx;

	open_limited(1);
	ctx = take();
	for (unsigned int i = 0; i < 3; i++) {
		taker_start(&waiters[i]);
		taker_order(&waiters[i], TAKE);
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
		taker_give(&waiters[i]);
		served++;
	}
	for (unsigned int i = 0; i < 3; i++)
		taker_end(&waiters[i]);
	ck_assert_uint_eq(atomic_load(&disk.image->pool->waiters), 0);
	close_disk();
}
END_TEST

static atomic_bool enough;

/* Takes a context again as soon as it has given it back. */
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
	struct taker waiter;
	pthread_t thread;

	open_limited(1);
	ck_assert_int_eq(pthread_create(&thread, NULL, hog, NULL), 0);
	while (context_count(disk.image) == 0)
		sched_yield();
	taker_start(&waiter);
	clock_gettime(CLOCK_MONOTONIC, &before);
	for (unsigned int i = 0; i < 20; i++) {
		taker_order(&waiter, TAKE);
		ck_assert_ptr_nonnull(taker_context(&waiter));
		taker_give(&waiter);
	}
	clock_gettime(CLOCK_MONOTONIC, &after);
	atomic_store(&enough, true);
	pthread_join(thread, NULL);
	taker_end(&waiter);
	ck_assert_int_lt(after.tv_sec - before.tv_sec, 5);
	close_disk();
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
	ck_assert(
		log_capture_has(LOG_LEVEL_WARNING,
				"disk.img: cannot make another I/O context: Too many open files"));
	ctx = take();
	ck_assert_ptr_nonnull(ctx);
	give(ctx);
	close_disk();
}
END_TEST

START_TEST(without_descriptors_a_thread_waits_for_a_context_that_there_is)
{
	struct taker waiter;
	struct ioctx *ctx;

	open_limited(0);
	ctx = take();
	limit_descriptors(true);
	taker_start(&waiter);
	taker_order(&waiter, TAKE);
	await_waiters(1);
	give(ctx);
	ck_assert_ptr_eq(taker_context(&waiter), ctx);
	limit_descriptors(false);
	taker_give(&waiter);
	taker_end(&waiter);
	close_disk();
}
END_TEST

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

static void *
take_and_give(void *data)
{
	(void)data;
	for (unsigned int i = 0; i < 400; i++) {
		struct ioctx *ctx = take();

		/* Not atomic: a second thread with the same context would change it. */
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
		{.name = "limit"},
		{.test = limit_makes_a_thread_wait_until_one_is_given_back},
		{.test = each_that_is_given_back_serves_one_who_waits},
		{.test = thread_that_always_comes_back_at_once_starves_nobody},
		{.test = owner_that_always_comes_back_at_once_starves_nobody},
		{.test = without_descriptors_there_is_no_first_context},
		{.test = without_descriptors_a_thread_waits_for_a_context_that_there_is},
		{.test = reserved_contexts_are_there_before_they_are_needed},
		{.test = no_two_threads_have_one_context},
		{0},
	};

	return suite_run("pool_limit", cases);
}
