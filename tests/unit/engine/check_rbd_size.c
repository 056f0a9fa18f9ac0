/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images in Ceph whose size others change.
 */
#include "engine/backing/ceph/rbd_size.h"

#include "tests/lib/suite.h"
#include "tests/unit/engine/rbd_fixture.h"
#include "tests/unit/log_capture.h"

#include <sched.h>

#define MIB (INT64_C(1) << 20)

static struct rbd_store *
get_sized(int64_t size)
{
	ceph_begin(NULL);
	atomic_store(&ceph.size, size);
	return ceph_get("disk", false);
}

/* Another client has changed the size. */
static void
resize(int64_t size)
{
	atomic_store(&ceph.size, size);
	ceph.updated(ceph.data);
}

START_TEST(change_beyond_the_end_of_a_shrunk_image_is_no_success)
{
	struct rbd_store *store = get_sized(8 * MIB);

	ck_assert_int_eq(ceph_call_at(store, CALL_WRITE, 3 * MIB, 2 * MIB), 2 * MIB);
	ck_assert_int_eq(ceph_call_at(store, CALL_ZERO, 3 * MIB, 2 * MIB), 0);
	resize(4 * MIB);
	ck_assert_int_eq(ceph_call_at(store, CALL_WRITE, 3 * MIB, 2 * MIB), MIB);
	ck_assert_int_eq(ceph_call_at(store, CALL_WRITE, 5 * MIB, MIB), 0);
	ck_assert_int_eq(ceph_call_at(store, CALL_ZERO, 3 * MIB, 2 * MIB), -EIO);
	ck_assert_int_eq(ceph_call_at(store, CALL_ZERO_THICK, 3 * MIB, 2 * MIB), -EIO);
	ck_assert_int_eq(ceph_call_at(store, CALL_DISCARD, 3 * MIB, 2 * MIB), 0);
	ck_assert_int_eq(ceph_call_at(store, CALL_WRITE, 2 * MIB, 2 * MIB), 2 * MIB);
	ck_assert_int_eq(ceph_call_at(store, CALL_ZERO, 2 * MIB, 2 * MIB), 0);
	resize(8 * MIB);
	ck_assert_int_eq(ceph_call_at(store, CALL_WRITE, 3 * MIB, 2 * MIB), 2 * MIB);
	rbd_store_put(store);
}
END_TEST

START_TEST(change_waits_until_the_new_size_is_known)
{
	struct rbd_store *store = get_sized(8 * MIB);
	struct waiter change, read;

	pthread_mutex_lock(&ceph_sizing);
	resize(4 * MIB);
	ceph_start(store, &change, CALL_WRITE, 3 * MIB, 2 * MIB);
	ceph_start(store, &read, CALL_READ, 3 * MIB, 2 * MIB);
	ck_assert(!ceph_is_done(&change));
	ck_assert(ceph_is_done(&read));
	pthread_mutex_unlock(&ceph_sizing);
	ck_assert_int_eq(ceph_await(&change), MIB);
	rbd_store_put(store);
}
END_TEST

START_TEST(change_is_no_success_if_the_size_is_not_known)
{
	struct rbd_store *store = get_sized(8 * MIB);

	resize(-EIO);
	ck_assert_int_eq(ceph_call_at(store, CALL_WRITE, 0, MIB), -EIO);
	/* The size is asked for again. */
	atomic_store(&ceph.size, 4 * MIB);
	while (ceph_call_at(store, CALL_WRITE, 3 * MIB, 2 * MIB) < 0)
		;
	ck_assert_int_eq(ceph_call_at(store, CALL_WRITE, 3 * MIB, 2 * MIB), MIB);
	rbd_store_put(store);
}
END_TEST

START_TEST(loss_is_seen_by_asking_for_the_size)
{
	struct rbd_store *store = get_sized(8 * MIB);

	resize(-ESHUTDOWN);
	ck_assert_int_eq(ceph_call_at(store, CALL_WRITE, 0, MIB), -ESHUTDOWN);
	ck_assert_int_eq(ceph_call(store, CALL_READ), -ESHUTDOWN);
	rbd_store_put(store);
}
END_TEST

struct listener {
	struct size_follower follower;
	_Atomic int calls;
	_Atomic int refusals; /* that are left */
	_Atomic int64_t size;
	_Atomic int losses;
};

static bool
resized(void *data, bool shrunk)
{
	struct listener *listener = data;

	atomic_fetch_add(&listener->calls, 1);
	if (atomic_load(&listener->refusals) > 0) {
		atomic_fetch_sub(&listener->refusals, 1);
		return false;
	}
	atomic_fetch_add(&listener->losses, shrunk);
	atomic_store(&listener->size, atomic_load(&ceph.size));
	return true;
}

static void
await_size(struct listener *listener, int64_t size)
{
	while (atomic_load(&listener->size) != size)
		sched_yield();
}

START_TEST(followers_are_told_of_a_new_size)
{
	struct rbd_store *store = get_sized(8 * MIB);
	struct listener one = {.follower = {.resized = resized, .data = &one}};
	struct listener busy = {.follower = {.resized = resized, .data = &busy}, .refusals = 2};

	/* The size may have changed before. */
	rbd_size_follow(ceph_backing(store), &one.follower);
	rbd_size_follow(ceph_backing(store), &busy.follower);
	await_size(&one, 8 * MIB);
	await_size(&busy, 8 * MIB);
	ck_assert_int_ge(busy.calls, 3);
	resize(4 * MIB);
	await_size(&one, 4 * MIB);
	await_size(&busy, 4 * MIB);
	rbd_size_unfollow(ceph_backing(store), &one.follower);
	resize(16 * MIB);
	await_size(&busy, 16 * MIB);
	ck_assert_int_eq(one.size, 4 * MIB);
	rbd_size_unfollow(ceph_backing(store), &busy.follower);
	rbd_store_put(store);
}
END_TEST

START_TEST(follower_is_told_that_the_image_was_smaller)
{
	struct rbd_store *store = get_sized(8 * MIB);
	struct listener one = {.follower = {.resized = resized, .data = &one}};

	rbd_size_follow(ceph_backing(store), &one.follower);
	await_size(&one, 8 * MIB);
	/* It does not follow before the image is as large as it was. */
	atomic_store(&one.refusals, 1000);
	resize(4 * MIB);
	while (atomic_load(&store->size) != 4 * MIB)
		sched_yield();
	resize(8 * MIB);
	while (atomic_load(&store->size) != 8 * MIB)
		sched_yield();
	ck_assert_int_eq(one.losses, 0);
	atomic_store(&one.size, 0);
	atomic_store(&one.refusals, 0);
	await_size(&one, 8 * MIB);
	ck_assert_int_eq(one.losses, 1);
	resize(16 * MIB);
	await_size(&one, 16 * MIB);
	ck_assert_int_eq(one.losses, 1);
	rbd_size_unfollow(ceph_backing(store), &one.follower);
	rbd_store_put(store);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "size", .begin = log_capture_begin, .end = log_capture_end},
		{.test = change_beyond_the_end_of_a_shrunk_image_is_no_success},
		{.test = change_waits_until_the_new_size_is_known},
		{.test = change_is_no_success_if_the_size_is_not_known},
		{.test = loss_is_seen_by_asking_for_the_size},
		{.test = followers_are_told_of_a_new_size},
		{.test = follower_is_told_that_the_image_was_smaller},
		{0},
	};

	return suite_run("rbd_size", cases);
}
