/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints of an image in Ceph: which snapshots of the cluster are some, and when one may stay
 * or is removed.
 */
#include "engine/backing/ceph/rbd_checkpoint.h"

#include "tests/lib/suite.h"
#include "tests/unit/engine/rbd_fixture.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "engine/backing/ceph/rbd_search.h"
#include "engine/backing/ceph/rbd_snapshot.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define NAME(label) "nbdloop-checkpoint." label ".0123456789abcdef"

static void
begin(const char *const names[], size_t count)
{
	ceph_begin(NULL);
	ceph.size = 1 << 20;
	for (size_t i = 0; i < count; i++)
		ceph.snapshots[i] = (struct rbd_snapshot_facts){names[i], i + 1, 1 << 20, 7};
	ceph.count = count;
}

static void
assert_list(struct rbd_store *store, const char *wanted)
{
	struct backing_checkpoint list[8];
	size_t count = rbd_checkpoints_list(ceph_backing(store), list, 8);
	char seen[256] = "";

	for (size_t i = 0; i < count; i++)
		sprintf(seen + strlen(seen), " %s=%u", list[i].name, (unsigned int)list[i].id);
	ck_assert_str_eq(seen, wanted);
}

static int64_t
in_ms(int64_t ms)
{
	return clock_ms(CLOCK_MONOTONIC) + ms;
}

START_TEST(snapshots_of_that_name_are_checkpoints)
{
	static const char *const names[] = {NAME("a"), "nbdloop.a.0123456789abcdef", NAME("b.c"),
					    "nbdloop-checkpoint.prod.before-upgrade-1"};
	char name[RBD_CHECKPOINT_NAME_MAX + 1];
	struct rbd_store *store;

	begin(names, 4);
	store = ceph_get("disk", false);
	assert_list(store, " a=1 b.c=3");
	ck_assert(rbd_checkpoint_name(store, 3, name));
	ck_assert_str_eq(name, NAME("b.c"));
	ck_assert(!rbd_checkpoint_name(store, 2, name));
	rbd_store_put(store);
}
END_TEST

/* Newer ones are no moments of what it holds. */
START_TEST(snapshot_has_the_older_ones)
{
	static const char *const names[] = {NAME("a"), "nbdloop.now.0123456789abcdef", NAME("b")};
	struct rbd_store *store;

	begin(names, 3);
	store = ceph_get_place(&(struct rbd_place){
		.name = "rbd:pool/disk@nbdloop.now.0123456789abcdef",
		.image = "of disk",
		.read_only = true,
	});
	assert_list(store, " a=1");
	rbd_store_put(store);
}
END_TEST

/* rbd snap rename keeps the number. */
START_TEST(another_name_is_another_one)
{
	static const char *const names[] = {NAME("a")};
	struct rbd_store *store;
	uint64_t edition;

	begin(names, 1);
	store = ceph_get("disk", false);
	edition = rbd_checkpoints_edition(ceph_backing(store));
	ck_assert_int_eq(rbd_checkpoints_learn(store), 0);
	ck_assert_uint_eq(rbd_checkpoints_edition(ceph_backing(store)), edition);
	ceph.snapshots[0].name = NAME("b");
	ck_assert_int_eq(rbd_checkpoints_learn(store), 0);
	ck_assert_uint_ne(rbd_checkpoints_edition(ceph_backing(store)), edition);
	assert_list(store, " b=1");
	rbd_store_put(store);
}
END_TEST

/* Two servers have begun one at a time: the later one must not stand in for the older one later. */
START_TEST(second_one_of_a_name_may_not_stay)
{
	static const char *const names[] = {"nbdloop-checkpoint.a.1111111111111111",
					    "nbdloop-checkpoint.a.2222222222222222"};
	struct rbd_store *store;

	begin(names, 2);
	store = ceph_get("disk", false);
	ck_assert_int_eq(rbd_checkpoint_judge(store, names[0]), 0);
	ck_assert_int_eq(rbd_checkpoint_judge(store, names[1]), -ENOTUNIQ);
	ck_assert_int_eq(rbd_checkpoint_judge(store, NAME("a")), -ENOENT);
	ceph.listing = -EIO;
	ck_assert_int_eq(rbd_checkpoint_judge(store, names[0]), -EIO);
	rbd_store_put(store);
}
END_TEST

/* The fake cluster does not list what it makes, as if another server had removed it. */
START_TEST(one_that_may_not_stay_is_removed)
{
	struct backing_snapshot *snapshot;
	struct rbd_store *store;
	char *CLEANUP_FREE error = NULL;

	begin(NULL, 0);
	store = ceph_get("disk", false);
	ck_assert_int_eq(rbd_snapshot_prepare(store, "a", true, &snapshot, &error), 0);
	ck_assert_int_eq(strncmp(rbd_snapshot_name(snapshot), "nbdloop-checkpoint.a.", 21), 0);
	ck_assert_int_eq(rbd_snapshot_start(snapshot, &error), 0);
	ck_assert_int_eq(rbd_snapshot_await(snapshot, in_ms(3600000), &error), -ENOENT);
	rbd_snapshot_free(snapshot);
	rbd_store_put(store);
	ck_assert_int_eq(atomic_load(&ceph.unsnapped), 1);
}
END_TEST

START_TEST(update_tells_of_others)
{
	static const char *const names[] = {NAME("a")};
	struct backing_checkpoint list[1];
	struct rbd_store *store;

	begin(names, 0);
	store = ceph_get("disk", false);
	ceph.snapshots[0] = (struct rbd_snapshot_facts){NAME("a"), 1, 1 << 20, 7};
	ceph.count = 1;
	ceph.updated(ceph.data);
	while (rbd_checkpoints_list(ceph_backing(store), list, 1) == 0)
		sched_yield();
	rbd_store_put(store);
}
END_TEST

static int
end_one(struct rbd_store *store, int64_t end, char **error)
{
	struct backing_removal *removal;
	int r = rbd_snapshot_remove_checkpoint(ceph_backing(store), 1, false, &removal, error);

	return r == 0 && removal ? rbd_snapshot_await_removal(removal, end, error) : r;
}

START_TEST(late_end_fails_and_goes_on)
{
	static const char *const names[] = {NAME("a")};
	struct rbd_store *store;
	char *CLEANUP_FREE error = NULL, *CLEANUP_FREE again = NULL, *CLEANUP_FREE gone = NULL;

	begin(names, 1);
	snprintf(ceph.snapshot, sizeof(ceph.snapshot), "%s", NAME("a"));
	store = ceph_get("disk", false);
	pthread_mutex_lock(&ceph_snapping);
	ck_assert_int_eq(end_one(store, in_ms(1), &error), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(error, "continues with it"));
	ck_assert_int_eq(end_one(store, in_ms(3600000), &again), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(again, "not yet answered"));
	ceph.count = 0;
	pthread_mutex_unlock(&ceph_snapping);
	while (rbd_checkpoints_list(ceph_backing(store), &(struct backing_checkpoint){0}, 1) > 0)
		sched_yield();
	ck_assert_int_eq(end_one(store, in_ms(3600000), &gone), 0);
	ck_assert_int_eq(atomic_load(&ceph.unsnapped), 1);
	rbd_store_put(store);
}
END_TEST

static int
ignore(void *data, uint64_t offset, uint64_t length, bool hole)
{
	(void)data;
	(void)offset;
	(void)length;
	(void)hole;
	return 0;
}

static void
assert_asked(unsigned int timeout)
{
	static const char *const names[] = {NAME("a")};
	struct rbd_store *store;

	begin(names, 1);
	store = ceph_get_place(
		&(struct rbd_place){CEPH_PLACE, .image = "disk", .timeout = timeout});
	ck_assert_int_eq(rbd_search_changes(ceph_backing(store), 1, 0, 4096, ignore, NULL), 0);
	ck_assert_str_eq(ceph.since, NAME("a"));
	ck_assert_int_eq(rbd_search_changes(ceph_backing(store), 2, 0, 4096, ignore, NULL),
			 -ENOENT);
	rbd_store_put(store);
}

START_TEST(changes_are_asked_for_by_name)
{
	assert_asked(0);
	assert_asked(60);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "checkpoint"},
		{.test = snapshots_of_that_name_are_checkpoints},
		{.test = snapshot_has_the_older_ones},
		{.test = another_name_is_another_one},
		{.test = second_one_of_a_name_may_not_stay},
		{.test = one_that_may_not_stay_is_removed},
		{.test = update_tells_of_others},
		{.test = late_end_fails_and_goes_on},
		{.test = changes_are_asked_for_by_name},
		{0},
	};

	return suite_run("rbd_checkpoint", cases);
}
