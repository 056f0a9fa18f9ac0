/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images in Ceph whose size others change.
 */
#include "engine/backing/rbd_size.h"

#include "tests/lib/suite.h"
#include "tests/unit/engine/rbd_fixture.h"
#include "tests/unit/log_capture.h"

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

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "size", .begin = log_capture_begin, .end = log_capture_end},
		{.test = change_beyond_the_end_of_a_shrunk_image_is_no_success},
		{.test = change_waits_until_the_new_size_is_known},
		{.test = change_is_no_success_if_the_size_is_not_known},
		{.test = loss_is_seen_by_asking_for_the_size},
		{0},
	};

	return suite_run("rbd_size", cases);
}
