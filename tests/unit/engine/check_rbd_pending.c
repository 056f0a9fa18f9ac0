/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images in Ceph whose cluster is away: calls wait, or fail after cluster-timeout, and what is
 * carried out late overwrites nothing newer.
 */
#include "engine/backing/ceph/rbd_pending.h"

#include "engine/backing/ceph/rbd_lock.h"
#include "engine/backing/ceph/rbd_size.h"

#include "tests/lib/suite.h"
#include "tests/unit/engine/rbd_fixture.h"
#include "tests/unit/log_capture.h"

#include "common/cleanup.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB (1u << 20)

static char data[4096];

static struct rbd_store *
get(unsigned int timeout)
{
	struct rbd_store *store;

	ceph_begin(NULL);
	ceph.size = 1 << 30;
	store = ceph_get_place(
		&(struct rbd_place){CEPH_PLACE, .image = "disk", .timeout = timeout});
	ceph.away = true;
	return store;
}

/* All that is pending, or only reads, have waited for longer than that. */
static void
pass_time_of(struct rbd_store *store, int64_t seconds, bool reads)
{
	pthread_mutex_lock(&store->pending);
	for (struct backing_call *call = store->oldest; call; call = call->newer) {
		if (!reads || call->op == CALL_READ)
			call->since -= seconds * 1000;
	}
	pthread_mutex_unlock(&store->pending);
}

static void
pass_time(struct rbd_store *store, int64_t seconds)
{
	pass_time_of(store, seconds, false);
}

static void
await_line(enum log_level level, const char *text)
{
	while (!log_capture_has(level, text))
		sched_yield();
}

/* A write of 'a' at the beginning whose caller got an error. */
static void
abandon_write(struct rbd_store *store)
{
	struct waiter waiter;

	memset(data, 'a', sizeof(data));
	ceph_start_data(store, &waiter, CALL_WRITE, 0, data, sizeof(data));
	ck_assert(!ceph_is_done(&waiter));
	pass_time(store, 7);
	ck_assert_int_eq(ceph_await(&waiter), -ETIMEDOUT);
	memset(data, 'b', sizeof(data));
}

static int
write_at(struct rbd_store *store, uint64_t offset)
{
	struct waiter waiter;

	ceph_start_data(store, &waiter, CALL_WRITE, offset, data, sizeof(data));
	return ceph_await(&waiter);
}

START_TEST(late_write_overwrites_nothing_newer)
{
	struct rbd_store *store = get(7);
	struct waiter zero;

	abandon_write(store);
	ck_assert_int_eq(((char *)ceph.held->buffer)[4095], 'a');
	/* The cluster answers, but not yet to that write. */
	ceph.away = false;
	ck_assert_int_eq(ceph_search(store, 1, false, NULL, NULL), -ETIMEDOUT);
	ck_assert_int_eq(write_at(store, 4095), -ETIMEDOUT);
	ceph_start(store, &zero, CALL_ZERO, 0, 1);
	ck_assert_int_eq(ceph_await(&zero), -ETIMEDOUT);
	ck_assert_int_eq(ceph.started, 1);
	ck_assert_int_eq(write_at(store, 4096), 4096);
	ck_assert_int_eq(ceph_call(store, CALL_READ), 0);
	ceph_come_back(store);
	ck_assert_int_eq(write_at(store, 4095), 4096);
	ck_assert_uint_eq(store->abandoned, 0);
	rbd_store_put(store);
}
END_TEST

START_TEST(each_late_write_keeps_its_bytes)
{
	const uint64_t offsets[] = {4 * MIB, 8 * MIB, 0};
	struct rbd_store *store = get(7);
	struct waiter waiter;

	ceph_start(store, &waiter, CALL_READ, 0, 0);
	for (int i = 0; i < 3; i++) {
		pass_time(store, 7);
		ck_assert_int_eq(ceph_await(&waiter), -ETIMEDOUT);
		ceph_start_data(store, &waiter, CALL_WRITE, offsets[i], data, 4096);
	}
	pass_time(store, 7);
	ck_assert_int_eq(ceph_await(&waiter), -ETIMEDOUT);
	ceph.away = false;
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(write_at(store, offsets[i] + 4095), -ETIMEDOUT);
		ck_assert_int_eq(write_at(store, offsets[i] + 4096), 4096);
	}
	ceph_come_back(store);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(write_at(store, offsets[i]), 4096);
	rbd_store_put(store);
}
END_TEST

/* The parts of a request that was merged of several are tried one by one. */
START_TEST(parts_of_an_abandoned_call_do_not_wait_again)
{
	struct rbd_store *store = get(7);
	struct waiter whole, part;

	for (int i = 0; i < 2; i++) {
		uint64_t offset = (uint64_t)i * MIB;

		ceph_start_data(store, &whole, i ? CALL_WRITE : CALL_READ, offset, data, 4096);
		pass_time(store, 7);
		ck_assert_int_eq(ceph_await(&whole), -ETIMEDOUT);
		ceph_start_data(store, &part, CALL_READ, offset + 4095, data, 4096);
		ck_assert(ceph_is_done(&part));
		ck_assert_int_eq(part.result, -ETIMEDOUT);
		/* Nobody else's. */
		ceph_start_data(store, &part, CALL_WRITE, offset + 4096, data, 4096);
		ck_assert(!ceph_is_done(&part));
		ceph_come_back(store);
		ck_assert_int_eq(ceph_await(&part), 4096);
		ceph.away = true;
	}
	rbd_store_put(store);
}
END_TEST

START_TEST(read_in_time_gets_its_data)
{
	struct rbd_store *store = get(7);
	struct waiter waiter;

	ceph_start_data(store, &waiter, CALL_READ, 0, data, sizeof(data));
	memset(ceph.held->buffer, 'r', sizeof(data));
	ceph.result = sizeof(data);
	ceph_come_back(store);
	ck_assert_int_eq(ceph_await(&waiter), sizeof(data));
	ck_assert_int_eq(data[0], 'r');
	ck_assert_int_eq(data[4095], 'r');
	rbd_store_put(store);
}
END_TEST

/* The size of the image does not tell whether they were carried out, and nobody asks any more. */
START_TEST(abandoned_calls_end_with_the_image)
{
	struct rbd_store *store = get(7);
	struct waiter waiter;

	ceph_start_data(store, &waiter, CALL_WRITE, 1 << 30, data, sizeof(data));
	pass_time(store, 7);
	ck_assert_int_eq(ceph_await(&waiter), -ETIMEDOUT);
	rbd_store_put(store);
	ck_assert_ptr_null(ceph.held);
}
END_TEST

START_TEST(abandoned_call_of_unknown_size_ends_with_the_image)
{
	struct rbd_store *store = get(7);
	struct waiter waiter;

	ceph_start_data(store, &waiter, CALL_WRITE, 0, data, sizeof(data));
	pass_time(store, 7);
	ck_assert_int_eq(ceph_await(&waiter), -ETIMEDOUT);
	pthread_mutex_lock(&ceph_sizing);
	ceph.updated(ceph.data);
	ceph_come_back(store);
	pthread_mutex_lock(&store->doubting);
	store->asks = false;
	pthread_mutex_unlock(&store->doubting);
	pthread_mutex_unlock(&ceph_sizing);
	rbd_size_end(store);
	ck_assert_ptr_null(store->oldest);
	rbd_store_put(store);
}
END_TEST

START_TEST(memory_of_abandoned_calls_is_bounded)
{
	struct rbd_store *store = get(7);
	struct waiter waiters[3];
	char *CLEANUP_FREE large = malloc(31 * MIB);

	for (int i = 0; i < 2; i++)
		ceph_start_data(store, &waiters[i], CALL_READ, 0, large, 31 * MIB);
	pass_time(store, 7);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ceph_await(&waiters[i]), -ETIMEDOUT);
	ceph_start_data(store, &waiters[2], CALL_READ, 0, large, 31 * MIB);
	ck_assert(ceph_is_done(&waiters[2]));
	ck_assert_int_eq(waiters[2].result, -ETIMEDOUT);
	ck_assert_int_eq(ceph.started, 2);
	ceph_come_back(store);
	rbd_store_put(store);
}
END_TEST

START_TEST(failures_are_told_once_and_the_return_too)
{
	struct rbd_store *store = get(7);

	ck_assert_int_eq(rbd_pending_age(store), 0);
	for (int i = 0; i < 2; i++) {
		struct waiter waiter;

		ceph_start(store, &waiter, CALL_READ, 0, 0);
		pass_time(store, 7);
		ck_assert_int_eq(ceph_await(&waiter), -ETIMEDOUT);
		ck_assert_int_ge(rbd_pending_age(store), 7000);
		ck_assert(rbd_pending_is_late(store));
	}
	await_line(LOG_LEVEL_ERROR, "not answered for 7 seconds (cluster-timeout): requests fail");
	ceph_come_back(store);
	await_line(LOG_LEVEL_INFO, "the cluster answers again, after");
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_ERROR), 1);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 0);
	ck_assert_int_eq(rbd_pending_age(store), 0);
	ck_assert(!rbd_pending_is_late(store));
	rbd_store_put(store);
}
END_TEST

START_TEST(calls_wait_for_ever_without_a_timeout)
{
	struct rbd_store *store = get(0);
	struct waiter waiter;

	ceph_start(store, &waiter, CALL_WRITE, 0, 512);
	pass_time(store, 1000000);
	await_line(LOG_LEVEL_WARNING,
		   "1000000 seconds: requests wait; `ceph status` shows its state");
	ck_assert(!ceph_is_done(&waiter));
	ck_assert_int_ge(rbd_pending_age(store), INT64_C(1000000000));
	ceph_come_back(store);
	ck_assert_int_eq(ceph_await(&waiter), 512);
	await_line(LOG_LEVEL_INFO, "the cluster answers again, after 1000000 seconds");
	rbd_store_put(store);
}
END_TEST

START_TEST(wait_for_the_lock_is_none_for_the_cluster)
{
	struct rbd_store *store = get(30);
	struct waiter waiter;
	int questions;

	ceph.away = false;
	ceph.owner = (struct rbd_owner){.address = "living", .watches = true};
	atomic_store(&store->exclusive, true);
	ceph_start_data(store, &waiter, CALL_WRITE, 0, data, sizeof(data));
	await_line(LOG_LEVEL_WARNING, "has the image's lock: changes wait");
	pass_time(store, 100);
	/* It asks for the lock, and the thread looks for old calls, both four times a second. */
	questions = atomic_load(&ceph.questions);
	while (atomic_load(&ceph.questions) < questions + 3)
		sched_yield();
	ck_assert(!ceph_is_done(&waiter));
	rbd_lock_stop(store);
	ck_assert_int_eq(ceph_await(&waiter), -ESHUTDOWN);
	ck_assert_int_eq(ceph.started, 0);
	rbd_store_put(store);
}
END_TEST

START_TEST(wait_for_its_own_name_is_none_for_the_cluster)
{
	struct rbd_store *store = get(30);
	struct waiter waiter;

	ceph.away = false;
	ceph.renewals = 7;
	atomic_store(&store->exclusive, true);
	ceph_start_data(store, &waiter, CALL_WRITE, 0, data, sizeof(data));
	/* It has the lock, and asks for its name as often as the thread looks for old calls. */
	while (atomic_load(&ceph.questions) < 3)
		sched_yield();
	pass_time(store, 100);
	ck_assert_int_eq(ceph_await(&waiter), sizeof(data));
	ck_assert_int_eq(ceph.renewals, 0);
	rbd_store_put(store);
}
END_TEST

START_TEST(abandoned_write_is_not_begun_when_the_lock_comes)
{
	struct rbd_store *store = get(7);
	struct waiter waiter;

	ceph.away = false;
	atomic_store(&store->exclusive, true);
	pthread_mutex_lock(&ceph_locking);
	ceph_start_data(store, &waiter, CALL_WRITE, 0, data, sizeof(data));
	pass_time(store, 7);
	ck_assert_int_eq(ceph_await(&waiter), -ETIMEDOUT);
	pthread_mutex_unlock(&ceph_locking);
	while (rbd_pending_is_late(store))
		sched_yield();
	ck_assert(ceph.acquired);
	ck_assert_int_eq(ceph.started, 0);
	rbd_store_put(store);
}
END_TEST

START_TEST(write_that_waited_for_the_lock_has_its_whole_time_once_sent)
{
	struct rbd_store *store = get(30);
	struct waiter write, read;

	ceph.owner = (struct rbd_owner){.address = "living", .watches = true};
	atomic_store(&store->exclusive, true);
	ceph_start_data(store, &write, CALL_WRITE, 0, data, sizeof(data));
	await_line(LOG_LEVEL_WARNING, "has the image's lock: changes wait");
	pass_time(store, 100);
	ceph_start(store, &read, CALL_READ, 0, 0);
	/* The owner gives the lock up, and the cluster takes its time for the write. */
	pthread_mutex_lock(&ceph_locking);
	ceph.owner.address[0] = '\0';
	pthread_mutex_unlock(&ceph_locking);
	while (!atomic_load(&store->held))
		sched_yield();
	rbd_lock_stop(store);
	ck_assert_int_eq(ceph.started, 2);
	/* When the read is given up, the write was looked at, too. */
	pass_time_of(store, 100, true);
	ck_assert_int_eq(ceph_await(&read), -ETIMEDOUT);
	ceph_come_back(store);
	ck_assert_int_eq(ceph_await(&write), sizeof(data));
	rbd_store_put(store);
}
END_TEST

struct extents {
	uint64_t end; /* of those that were visited */
	int count, last;
};

static int
visit(void *visited, uint64_t offset, uint64_t length, bool hole)
{
	struct extents *extents = visited;

	ck_assert_uint_eq(offset, extents->end);
	ck_assert_int_eq(hole, extents->count % 2);
	extents->end = offset + length;
	return ++extents->count == extents->last ? 77 : 0;
}

static int
search(struct rbd_store *store, uint64_t length, bool one, struct extents *extents)
{
	extents->count = 0;
	extents->end = 0;
	return ceph_search(store, length, one, visit, extents);
}

START_TEST(search_in_time_finds_what_there_is)
{
	struct rbd_store *store = get(7);
	struct extents extents = {.last = 0};

	ck_assert_int_eq(search(store, MIB, false, &extents), 0);
	ck_assert_int_eq(extents.count, 1);
	/* More than one call finds. */
	ceph.extent = 1;
	ck_assert_int_eq(search(store, 5000, false, &extents), 0);
	ck_assert_int_eq(extents.count, 5000);
	ck_assert_uint_eq(extents.end, 5000);
	ceph.searches = 0;
	ck_assert_int_eq(search(store, 5000, true, &extents), 0);
	ck_assert_int_eq(extents.count, 1);
	ck_assert_int_eq(ceph.searches, 1);
	extents.last = 3;
	ck_assert_int_eq(search(store, 5000, false, &extents), 77);
	ck_assert_int_eq(extents.count, 3);
	rbd_store_put(store);
}
END_TEST

static void *
search_a_while(void *store)
{
	struct extents extents = {.last = 0};

	return (void *)(intptr_t)search(store, MIB, false, &extents);
}

/* The time of the search passes. */
static int
search_in_vain(struct rbd_store *store)
{
	pthread_t thread;
	void *result;

	ck_assert_int_eq(pthread_create(&thread, NULL, search_a_while, store), 0);
	while (ceph.searches == 0)
		sched_yield();
	pass_time(store, 7);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	return (int)(intptr_t)result;
}

START_TEST(search_fails_when_its_time_is_over)
{
	struct rbd_store *store = get(7);
	struct extents extents = {.last = 0};

	pthread_mutex_lock(&ceph_searching);
	ck_assert_int_eq(search_in_vain(store), -ETIMEDOUT);
	await_line(LOG_LEVEL_ERROR, "the cluster has not answered for 7 seconds");
	/* No other one begins meanwhile, but reads do. */
	ck_assert_int_eq(search(store, MIB, false, &extents), -ETIMEDOUT);
	ck_assert_int_eq(ceph.searches, 1);
	ceph.away = false;
	ck_assert_int_eq(ceph_call_at(store, CALL_READ, 0, 512), 0);
	pthread_mutex_unlock(&ceph_searching);
	await_line(LOG_LEVEL_INFO, "the cluster answers again");
	ck_assert_int_eq(search(store, MIB, false, &extents), 0);
	ck_assert_uint_eq(extents.end, MIB);
	rbd_store_put(store);
}
END_TEST

static void *
put(void *store)
{
	rbd_store_put(store);
	return NULL;
}

START_TEST(abandoned_search_ends_before_the_image)
{
	struct rbd_store *store = get(7);
	pthread_t thread;

	pthread_mutex_lock(&ceph_searching);
	ck_assert_int_eq(search_in_vain(store), -ETIMEDOUT);
	ck_assert_int_eq(pthread_create(&thread, NULL, put, store), 0);
	nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	ck_assert_int_eq(ceph.open, 1);
	pthread_mutex_unlock(&ceph_searching);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(ceph.open, 0);
}
END_TEST

START_TEST(exports_of_one_image_have_one_timeout)
{
	const struct rbd_place other = {CEPH_PLACE, .image = "disk", .timeout = 8};
	struct rbd_store *store = get(7), *none;
	char *CLEANUP_FREE error = NULL;

	ck_assert_int_eq(rbd_store_get(&ceph_module, &other, &none, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "cluster-timeout=8 is not possible"));
	rbd_store_put(store);
	ck_assert_int_eq(ceph.open, 0);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "pending", .begin = log_capture_begin, .end = log_capture_end},
		{.test = late_write_overwrites_nothing_newer},
		{.test = each_late_write_keeps_its_bytes},
		{.test = parts_of_an_abandoned_call_do_not_wait_again},
		{.test = read_in_time_gets_its_data},
		{.test = abandoned_calls_end_with_the_image},
		{.test = abandoned_call_of_unknown_size_ends_with_the_image},
		{.test = memory_of_abandoned_calls_is_bounded},
		{.test = failures_are_told_once_and_the_return_too},
		{.test = calls_wait_for_ever_without_a_timeout},
		{.test = wait_for_the_lock_is_none_for_the_cluster},
		{.test = wait_for_its_own_name_is_none_for_the_cluster},
		{.test = abandoned_write_is_not_begun_when_the_lock_comes},
		{.test = write_that_waited_for_the_lock_has_its_whole_time_once_sent},
		{.test = search_in_time_finds_what_there_is},
		{.test = search_fails_when_its_time_is_over},
		{.test = abandoned_search_ends_before_the_image},
		{.test = exports_of_one_image_have_one_timeout},
		{0},
	};

	return suite_run("rbd_pending", cases);
}
