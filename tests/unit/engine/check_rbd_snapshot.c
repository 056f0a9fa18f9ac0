/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Snapshots that Ceph makes: one that comes too late goes away again, and one that is open stays
 * until its last user is gone.
 */
#include "engine/backing/ceph/rbd_snapshot.h"

#include "tests/lib/suite.h"
#include "tests/unit/engine/rbd_fixture.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

static struct rbd_store *
get(unsigned int timeout)
{
	ceph_begin(NULL);
	ceph.size = 1 << 30;
	return ceph_get_place(&(struct rbd_place){CEPH_PLACE, .image = "disk", .timeout = timeout});
}

static struct backing_snapshot *
start(struct rbd_store *store)
{
	struct backing_snapshot *snapshot;
	char *CLEANUP_FREE error = NULL;

	ck_assert_int_eq(rbd_snapshot_prepare(store, "now", false, &snapshot, &error), 0);
	ck_assert_int_eq(rbd_snapshot_start(snapshot, &error), 0);
	return snapshot;
}

static int
await(struct backing_snapshot *snapshot, int64_t ms)
{
	char *CLEANUP_FREE error = NULL;
	int r = rbd_snapshot_await(snapshot, clock_ms(CLOCK_MONOTONIC) + ms, &error);

	ck_assert((r == 0) == (error == NULL));
	return r;
}

static void
await_count(_Atomic int *count, int wanted)
{
	while (atomic_load(count) != wanted)
		sched_yield();
}

/* Whether a snapshot can be made is known when the thread of the last one has ended. */
static void
await_possible(struct rbd_store *store)
{
	struct backing_snapshot *snapshot = NULL;
	int r;

	do {
		char *CLEANUP_FREE error = NULL;

		r = rbd_snapshot_prepare(store, "now", false, &snapshot, &error);
		ck_assert(r == 0 || r == -ETIMEDOUT);
	} while (r != 0);
	rbd_snapshot_free(snapshot);
}

START_TEST(late_one_is_removed)
{
	struct rbd_store *store = get(0);
	struct backing_snapshot *snapshot;
	char *CLEANUP_FREE error = NULL;

	pthread_mutex_lock(&ceph_snapping);
	snapshot = start(store);
	ck_assert_int_eq(await(snapshot, 0), -ETIMEDOUT);
	rbd_snapshot_free(snapshot);
	ck_assert_int_eq(rbd_snapshot_prepare(store, "now", false, &snapshot, &error), -ETIMEDOUT);
	ck_assert_int_eq(atomic_load(&ceph.snapped), 0);
	pthread_mutex_unlock(&ceph_snapping);
	await_count(&ceph.unsnapped, 1);
	ck_assert_int_eq(atomic_load(&ceph.snapped), 1);
	await_possible(store);
	rbd_store_put(store);
}
END_TEST

/* Writes of all images would wait for it, too. */
START_TEST(known_outage_refuses_at_once)
{
	struct rbd_store *store = get(1);
	struct backing_snapshot *snapshot;
	struct waiter waiter;
	char *CLEANUP_FREE error = NULL;

	ceph.away = true;
	ceph_start(store, &waiter, CALL_READ, 0, 0);
	ck_assert_int_eq(ceph_await(&waiter), -ETIMEDOUT);
	ck_assert_int_eq(rbd_snapshot_prepare(store, "now", false, &snapshot, &error), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(error, "cluster-timeout"));
	ceph_come_back(store);
	await_possible(store);
	rbd_store_put(store);
}
END_TEST

START_TEST(timeout_of_the_cluster_counts)
{
	struct rbd_store *store = get(1);
	struct backing_snapshot *snapshot;

	pthread_mutex_lock(&ceph_snapping);
	snapshot = start(store);
	ck_assert_int_eq(await(snapshot, 3600000), -ETIMEDOUT);
	rbd_snapshot_free(snapshot);
	pthread_mutex_unlock(&ceph_snapping);
	/* The store is closed after it was removed. */
	rbd_store_put(store);
	ck_assert_int_eq(atomic_load(&ceph.unsnapped), 1);
}
END_TEST

START_TEST(unused_one_is_removed)
{
	struct rbd_store *store = get(0);
	struct backing_snapshot *snapshot = start(store);

	ck_assert_int_eq(await(snapshot, 3600000), 0);
	rbd_snapshot_free(snapshot);
	rbd_store_put(store);
	ck_assert_int_eq(atomic_load(&ceph.unsnapped), 1);
}
END_TEST

START_TEST(open_one_stays_until_its_end)
{
	struct rbd_store *store = get(0), *opened, *second;
	struct backing_snapshot *snapshot = start(store);
	char place[192];

	ck_assert_int_eq(await(snapshot, 3600000), 0);
	snprintf(place, sizeof(place), "rbd:pool/disk@%s", rbd_snapshot_name(snapshot));
	opened = ceph_get_place(
		&(struct rbd_place){.name = place, .image = "of disk", .read_only = true});
	rbd_store_remove_at_end(opened, rbd_snapshot_origin(snapshot));
	rbd_snapshot_keep(snapshot);
	rbd_snapshot_free(snapshot);
	second = ceph_get_place(
		&(struct rbd_place){.name = place, .image = "of disk", .read_only = true});
	ck_assert_ptr_eq(second, opened);
	rbd_store_put(store);
	rbd_store_put(opened);
	ck_assert_int_eq(ceph.open, 2);
	ck_assert_int_eq(atomic_load(&ceph.unsnapped), 0);
	rbd_store_put(second);
	ck_assert_int_eq(ceph.open, 0);
	ck_assert_int_eq(atomic_load(&ceph.unsnapped), 1);
}
END_TEST

START_TEST(removal_holds_nobody_up)
{
	struct rbd_store *store = get(0), *opened;
	struct backing_snapshot *snapshot = start(store);
	char place[192];

	ck_assert_int_eq(await(snapshot, 3600000), 0);
	snprintf(place, sizeof(place), "rbd:pool/disk@%s", rbd_snapshot_name(snapshot));
	opened = ceph_get_place(
		&(struct rbd_place){.name = place, .image = "of disk", .read_only = true});
	rbd_store_remove_at_end(opened, rbd_snapshot_origin(snapshot));
	rbd_snapshot_keep(snapshot);
	rbd_snapshot_free(snapshot);
	pthread_mutex_lock(&ceph_snapping);
	rbd_store_put(opened);
	ck_assert_int_eq(atomic_load(&ceph.unsnapped), 0);
	pthread_mutex_unlock(&ceph_snapping);
	rbd_store_put(store);
	ck_assert_int_eq(atomic_load(&ceph.unsnapped), 1);
}
END_TEST

START_TEST(fence_makes_it_fail)
{
	struct rbd_store *store = get(0);
	struct backing_snapshot *snapshot;
	char *CLEANUP_FREE error = NULL;

	pthread_mutex_lock(&ceph_snapping);
	snapshot = start(store);
	/* It succeeds all the same: it is the new owner's. */
	atomic_store(&store->fenced, true);
	pthread_mutex_unlock(&ceph_snapping);
	ck_assert_int_eq(await(snapshot, 3600000), -ESHUTDOWN);
	rbd_snapshot_free(snapshot);
	ck_assert_int_eq(rbd_snapshot_prepare(store, "now", false, &snapshot, &error), -ESHUTDOWN);
	rbd_store_put(store);
}
END_TEST

START_TEST(refusal_tells_of_a_fence)
{
	struct rbd_store *store = get(0);
	struct backing_snapshot *snapshot;

	ceph.result = -ESHUTDOWN;
	snapshot = start(store);
	ck_assert_int_eq(await(snapshot, 3600000), -ESHUTDOWN);
	ck_assert(atomic_load(&store->fenced));
	rbd_snapshot_free(snapshot);
	rbd_store_put(store);
}
END_TEST

START_TEST(read_only_image_is_no_fence)
{
	struct rbd_store *store = get(0);
	struct backing_snapshot *snapshot;

	atomic_store(&store->held, true);
	ceph.result = -EROFS;
	snapshot = start(store);
	ck_assert_int_eq(await(snapshot, 3600000), -EROFS);
	ck_assert(!atomic_load(&store->fenced));
	rbd_snapshot_free(snapshot);
	rbd_store_put(store);
}
END_TEST

/* Makes a snapshot, for which librbd takes the lock, and removes it. */
static void
make_and_remove(struct rbd_store *store)
{
	struct backing_snapshot *snapshot;

	atomic_store(&store->exclusive, true);
	ceph.owner = (struct rbd_owner){.address = "us", .own = true, .watches = true};
	snapshot = start(store);
	ck_assert_int_eq(await(snapshot, 3600000), 0);
	rbd_snapshot_free(snapshot);
	await_count(&ceph.unsnapped, 1);
}

START_TEST(borrowed_lock_is_given_back)
{
	struct rbd_store *store = get(0);

	make_and_remove(store);
	rbd_store_put(store);
	ck_assert_int_eq(atomic_load(&ceph.released), 1);
}
END_TEST

START_TEST(lock_of_changes_is_kept)
{
	struct rbd_store *store = get(0);

	atomic_store(&store->exclusive, true);
	ck_assert_int_eq(ceph_call_at(store, CALL_WRITE, 0, 512), 512);
	ck_assert(ceph.acquired);
	make_and_remove(store);
	rbd_store_put(store);
	/* Only at the end. */
	ck_assert_int_eq(atomic_load(&ceph.released), 1);
}
END_TEST

START_TEST(change_waits_until_the_lock_is_given_back)
{
	struct rbd_store *store = get(0);
	struct waiter waiter;
	bool gives = false;

	pthread_mutex_lock(&ceph_locking);
	make_and_remove(store);
	while (!gives) {
		pthread_mutex_lock(&store->mutex);
		gives = store->taking;
		pthread_mutex_unlock(&store->mutex);
	}
	ceph_start(store, &waiter, CALL_WRITE, 0, 512);
	ck_assert(!ceph_is_done(&waiter));
	ck_assert_int_eq(ceph.started, 0);
	pthread_mutex_unlock(&ceph_locking);
	ck_assert_int_eq(ceph_await(&waiter), 512);
	ck_assert_int_eq(atomic_load(&ceph.released), 1);
	ck_assert(atomic_load(&store->held));
	rbd_store_put(store);
	ck_assert_int_eq(ceph.early, 0);
}
END_TEST

START_TEST(name_is_plain_and_limited)
{
	struct rbd_store *store = get(0);
	struct backing_snapshot *snapshot, *other;
	char label[4000], *CLEANUP_FREE error = NULL;

	memset(label, '@', sizeof(label) - 1);
	label[sizeof(label) - 1] = '\0';
	memcpy(label, "a/b c", 5);
	ck_assert_int_eq(rbd_snapshot_prepare(store, label, false, &snapshot, &error), 0);
	ck_assert_int_eq(rbd_snapshot_prepare(store, label, false, &other, &error), 0);
	ck_assert_int_eq(strncmp(rbd_snapshot_name(snapshot), "nbdloop.a_b_c_", 14), 0);
	ck_assert_ptr_null(strpbrk(rbd_snapshot_name(snapshot), "@/ "));
	ck_assert_uint_le(strlen(rbd_snapshot_name(snapshot)), 8 + 64 + 1 + 16);
	ck_assert_str_ne(rbd_snapshot_name(snapshot), rbd_snapshot_name(other));
	rbd_snapshot_free(snapshot);
	rbd_snapshot_free(other);
	rbd_store_put(store);
}
END_TEST

START_TEST(reader_makes_none)
{
	struct rbd_store *store;
	struct backing_snapshot *snapshot;
	char *CLEANUP_FREE error = NULL;

	ceph_begin(NULL);
	store = ceph_get("disk", true);
	ck_assert_int_eq(rbd_snapshot_prepare(store, "now", false, &snapshot, &error), -EROFS);
	rbd_store_put(store);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "snapshot"},
		{.test = late_one_is_removed},
		{.test = known_outage_refuses_at_once},
		{.test = timeout_of_the_cluster_counts},
		{.test = unused_one_is_removed},
		{.test = open_one_stays_until_its_end},
		{.test = removal_holds_nobody_up},
		{.test = fence_makes_it_fail},
		{.test = refusal_tells_of_a_fence},
		{.test = read_only_image_is_no_fence},
		{.test = borrowed_lock_is_given_back},
		{.test = lock_of_changes_is_kept},
		{.test = change_waits_until_the_lock_is_given_back},
		{.test = name_is_plain_and_limited},
		{.test = reader_makes_none},
		{0},
	};

	return suite_run("rbd_snapshot", cases);
}
