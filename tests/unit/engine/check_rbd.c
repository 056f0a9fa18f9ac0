/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images in Ceph: names, the lock before the first change, and the end of all answers after a loss.
 */
#include "engine/backing/ceph/rbd_lock.h"
#include "engine/backing/ceph/rbd_name.h"
#include "engine/backing/image_kinds.h"

#include "tests/lib/suite.h"
#include "tests/unit/engine/rbd_fixture.h"
#include "tests/unit/event_capture.h"
#include "tests/unit/log_capture.h"

#include "common/cleanup.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct event fenced = {.kind = EVENT_FENCED, .subject = CEPH_NAME};

static void
begin(void)
{
	log_capture_begin();
	event_capture_begin();
}

static void
end(void)
{
	event_capture_end();
	log_capture_end();
}

static const struct {
	const char *path, *pool, *space, *image, *snapshot;
} names[] = {
	{"rbd:rbd/disk", "rbd", NULL, "disk", NULL},
	{"rbd:rbd/disk@monday", "rbd", NULL, "disk", "monday"},
	{"rbd:vms/tenant/disk", "vms", "tenant", "disk", NULL},
	{"rbd:vms/tenant/disk@a/b@c", "vms", "tenant", "disk", "a/b@c"},
};

static void
same_text(const char *a, const char *b)
{
	ck_assert((!a && !b) || (a && b && strcmp(a, b) == 0));
}

START_TEST(name_has_its_parts)
{
	struct rbd_name name;
	char *error = NULL;

	ck_assert_int_eq(rbd_name_parse(names[_i].path, &name, &error), 0);
	same_text(name.pool, names[_i].pool);
	same_text(name.space, names[_i].space);
	same_text(name.image, names[_i].image);
	same_text(name.snapshot, names[_i].snapshot);
	free(name.text);
}
END_TEST

static const char *const wrong_names[] = {"rbd:",     "rbd:disk",  "rbd:/disk",
					  "rbd:rbd/", "rbd:a//b",  "rbd:a/b/c/d",
					  "rbd:a/b@", "rbd:@snap", "rbd:a@b/c"};

START_TEST(wrong_name_is_explained)
{
	struct rbd_name name;
	char *CLEANUP_FREE error = NULL;

	ck_assert_ptr_eq(image_kind_of(wrong_names[_i]), &image_kind_ceph);
	ck_assert_int_eq(rbd_name_parse(wrong_names[_i], &name, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "rbd:POOL/IMAGE"));
}
END_TEST

START_TEST(file_of_such_a_name_needs_a_directory)
{
	ck_assert(image_kind_is_path("./rbd:rbd/disk"));
	ck_assert(image_kind_is_path("/rbd:rbd/disk"));
}
END_TEST

START_TEST(lock_is_taken_before_the_first_change)
{
	struct rbd_store *store;

	ceph_begin(NULL);
	store = ceph_get("disk", false);
	atomic_store(&store->exclusive, true);
	ck_assert_int_eq(ceph_call(store, CALL_READ), 0);
	ck_assert(!ceph.acquired);
	ck_assert_int_eq(ceph_call(store, CALL_WRITE), 0);
	ck_assert(ceph.acquired);
	ck_assert_int_eq(ceph.early, 0);
	rbd_store_put(store);
}
END_TEST

START_TEST(image_that_several_write_needs_no_lock)
{
	struct rbd_store *store;

	ceph_begin(NULL);
	store = ceph_get("disk", false);
	ck_assert_int_eq(ceph_call(store, CALL_WRITE), 0);
	ck_assert(!ceph.acquired);
	rbd_store_put(store);
}
END_TEST

START_TEST(flush_before_the_first_change_leaves_the_lock_alone)
{
	struct rbd_store *store;

	ceph_begin(NULL);
	store = ceph_get("disk", false);
	ck_assert_int_eq(ceph_call(store, CALL_FLUSH), 0);
	atomic_store(&store->exclusive, true);
	ck_assert_int_eq(ceph_call(store, CALL_FLUSH), 0);
	ck_assert_int_eq(ceph.flushes, 0);
	ck_assert_int_eq(ceph_call(store, CALL_WRITE), 0);
	ck_assert_int_eq(ceph_call(store, CALL_FLUSH), 0);
	ck_assert_int_eq(ceph.flushes, 1);
	rbd_store_put(store);
}
END_TEST

START_TEST(flush_of_changes_without_the_lock_is_passed_on)
{
	struct rbd_store *store;

	ceph_begin(NULL);
	store = ceph_get("disk", false);
	ck_assert_int_eq(ceph_call(store, CALL_ZERO), 0);
	ck_assert_int_eq(ceph_call(store, CALL_FLUSH), 0);
	ck_assert_int_eq(ceph.flushes, 1);
	rbd_store_put(store);
}
END_TEST

START_TEST(lock_that_librbd_took_by_itself_is_acquired)
{
	struct rbd_store *store;

	ceph_begin(&(struct rbd_owner){.address = "this", .watches = true, .own = true});
	store = ceph_get("disk", false);
	atomic_store(&store->exclusive, true);
	ck_assert_int_eq(ceph_call(store, CALL_WRITE), 0);
	ck_assert(ceph.acquired);
	ck_assert_int_eq(ceph.early, 0);
	ck_assert_str_eq(ceph.broken, "");
	rbd_store_put(store);
}
END_TEST

START_TEST(dead_owner_is_fenced)
{
	struct rbd_store *store;

	ceph_begin(&(struct rbd_owner){.address = "dead"});
	store = ceph_get("disk", false);
	atomic_store(&store->exclusive, true);
	ck_assert_int_eq(ceph_call(store, CALL_WRITE), 0);
	ck_assert_str_eq(ceph.broken, "dead");
	ck_assert_int_eq(ceph.early, 0);
	ck_assert(
		log_capture_has(LOG_LEVEL_WARNING,
				"fenced the client dead, which had the image's lock and is gone"));
	rbd_store_put(store);
}
END_TEST

START_TEST(living_owner_is_fenced_only_with_force)
{
	struct rbd_store *store;
	struct waiter waiter;

	ceph_begin(&(struct rbd_owner){.address = "living", .watches = true});
	store = ceph_get("disk", false);
	atomic_store(&store->exclusive, true);
	/* It waits, and ends with the store. */
	ceph_start(store, &waiter, CALL_WRITE, 0, 0);
	rbd_lock_stop(store);
	ck_assert(waiter.done);
	ck_assert_int_eq(waiter.result, -ESHUTDOWN);
	ck_assert_str_eq(ceph.broken, "");
	store->stop = false;
	atomic_store(&store->force, true);
	ck_assert_int_eq(ceph_call(store, CALL_WRITE), 0);
	ck_assert_str_eq(ceph.broken, "living");
	ck_assert_int_eq(ceph.early, 0);
	rbd_store_put(store);
}
END_TEST

START_TEST(nothing_succeeds_after_the_server_was_fenced)
{
	struct rbd_store *store;

	ceph_begin(NULL);
	store = ceph_get("disk", false);
	atomic_store(&store->exclusive, true);
	ck_assert_int_eq(ceph_call(store, CALL_WRITE), 0);
	ceph.result = -ESHUTDOWN;
	ck_assert_int_eq(ceph_call(store, CALL_WRITE), -ESHUTDOWN);
	ceph.result = 0;
	ck_assert_int_eq(ceph_call(store, CALL_READ), -ESHUTDOWN);
	ck_assert_int_eq(ceph_call(store, CALL_FLUSH), -ESHUTDOWN);
	ck_assert(log_capture_has(LOG_LEVEL_ERROR, "another client has fenced this server"));
	ck_assert(event_capture_has(&fenced));
	rbd_store_put(store);
}
END_TEST

static int
visit(void *data, uint64_t offset, uint64_t length, bool hole)
{
	(void)data;
	(void)offset;
	(void)length;
	(void)hole;
	return 0;
}

START_TEST(search_for_extents_sees_the_fence)
{
	struct rbd_store *store;

	ceph_begin(NULL);
	store = ceph_get("disk", false);
	ck_assert_int_eq(ceph_search(store, 512, false, visit, NULL), 0);
	ceph.result = -ESHUTDOWN;
	ck_assert_int_eq(ceph_search(store, 512, false, visit, NULL), -ESHUTDOWN);
	ck_assert(log_capture_has(LOG_LEVEL_ERROR, "another client has fenced this server"));
	ceph.result = 0;
	ck_assert_int_eq(ceph_call(store, CALL_READ), -ESHUTDOWN);
	ck_assert_int_eq(ceph_search(store, 512, false, visit, NULL), -ESHUTDOWN);
	ck_assert_int_eq(ceph.searches, 2);
	rbd_store_put(store);
}
END_TEST

START_TEST(change_refused_without_the_lock_is_a_loss)
{
	struct rbd_store *store;

	ceph_begin(NULL);
	store = ceph_get("disk", false);
	atomic_store(&store->exclusive, true);
	ck_assert_int_eq(ceph_call(store, CALL_WRITE), 0);
	ceph.result = -EROFS;
	ck_assert_int_eq(ceph_call(store, CALL_ZERO), -ESHUTDOWN);
	ck_assert(atomic_load(&store->fenced));
	rbd_store_put(store);
}
END_TEST

/* Returns a store that has the lock, and has asked about it since. */
static struct rbd_store *
get_locked(void)
{
	struct rbd_store *store;

	ceph_begin(NULL);
	store = ceph_get("disk", false);
	atomic_store(&store->exclusive, true);
	ck_assert_int_eq(ceph_call(store, CALL_WRITE), 0);
	return store;
}

/* The first write is acknowledged, though librbd calls it a success, only if the lock is there. */
static void
expect_loss(struct rbd_store *store, const char *why)
{
	ck_assert_int_eq(ceph_call(store, CALL_WRITE), -ESHUTDOWN);
	ck_assert_int_eq(ceph_call(store, CALL_READ), -ESHUTDOWN);
	ck_assert_int_eq(ceph_call(store, CALL_FLUSH), -ESHUTDOWN);
	ck_assert(atomic_load(&store->fenced));
	ck_assert(log_capture_has(LOG_LEVEL_ERROR, why));
	ck_assert(event_capture_has(&fenced));
	rbd_store_put(store);
}

START_TEST(lock_that_another_client_disabled_is_a_loss)
{
	struct rbd_store *store = get_locked();

	atomic_store(&ceph.features, 0);
	ceph.updated(ceph.data);
	expect_loss(store, "disabled the image's feature exclusive-lock");
}
END_TEST

START_TEST(lock_that_was_disabled_before_it_was_taken_is_not_trusted)
{
	struct rbd_store *store;

	ceph_begin(NULL);
	store = ceph_get("disk", false);
	atomic_store(&store->exclusive, true);
	atomic_store(&ceph.features, 0);
	expect_loss(store, "disabled the image's feature exclusive-lock");
}
END_TEST

START_TEST(lock_that_another_client_broke_is_a_loss)
{
	struct rbd_store *store = get_locked();

	pthread_mutex_lock(&ceph_locking);
	ceph.owner = (struct rbd_owner){"9.9.9.9:0/9", .watches = true};
	pthread_mutex_unlock(&ceph_locking);
	ceph.updated(ceph.data);
	expect_loss(store, "this server has lost the image's lock");
}
END_TEST

START_TEST(lock_that_librbd_renews_is_no_loss)
{
	struct rbd_store *store = get_locked();

	pthread_mutex_lock(&ceph_locking);
	ceph.owner.own = ceph.owner.watches = false;
	pthread_mutex_unlock(&ceph_locking);
	ceph.updated(ceph.data);
	ck_assert_int_eq(ceph_call(store, CALL_WRITE), 0);
	ck_assert(!event_capture_has(&fenced));
	rbd_store_put(store);
}
END_TEST

START_TEST(features_that_changed_are_known)
{
	struct rbd_store *store;

	ceph_begin(NULL);
	store = ceph_get("disk", false);
	ck_assert(!rbd_has(store, RBD_HAS_FAST_DIFF));
	atomic_store(&ceph.features, RBD_HAS_FAST_DIFF);
	ceph.updated(ceph.data);
	ck_assert_int_eq(ceph_call(store, CALL_WRITE), 0);
	ck_assert(rbd_has(store, RBD_HAS_FAST_DIFF));
	ck_assert(!atomic_load(&store->fenced));
	rbd_store_put(store);
}
END_TEST

/* ---- the lock at the start, and ceph-fence */

START_TEST(exports_of_one_image_are_one_client)
{
	struct rbd_store *first, *second, *reader, *other;

	ceph_begin(NULL);
	first = ceph_get("disk", false);
	second = ceph_get("disk", false);
	reader = ceph_get("disk", true);
	other = ceph_get("other", false);
	ck_assert_ptr_eq(first, second);
	ck_assert_ptr_ne(first, reader);
	ck_assert_ptr_ne(first, other);
	ck_assert_int_eq(ceph.open, 3);
	rbd_store_put(first);
	ck_assert_int_eq(ceph.open, 3);
	rbd_store_put(second);
	rbd_store_put(reader);
	rbd_store_put(other);
	ck_assert_int_eq(ceph.open, 0);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "names"},
		{.test = name_has_its_parts, .last = sizeof(names) / sizeof(names[0])},
		{.test = wrong_name_is_explained,
		 .last = sizeof(wrong_names) / sizeof(wrong_names[0])},
		{.test = file_of_such_a_name_needs_a_directory},
		{.name = "one writer", .begin = begin, .end = end},
		{.test = lock_is_taken_before_the_first_change},
		{.test = image_that_several_write_needs_no_lock},
		{.test = flush_before_the_first_change_leaves_the_lock_alone},
		{.test = flush_of_changes_without_the_lock_is_passed_on},
		{.test = lock_that_librbd_took_by_itself_is_acquired},
		{.test = dead_owner_is_fenced},
		{.test = living_owner_is_fenced_only_with_force},
		{.test = nothing_succeeds_after_the_server_was_fenced},
		{.test = search_for_extents_sees_the_fence},
		{.test = change_refused_without_the_lock_is_a_loss},
		{.test = lock_that_another_client_disabled_is_a_loss},
		{.test = lock_that_was_disabled_before_it_was_taken_is_not_trusted},
		{.test = lock_that_another_client_broke_is_a_loss},
		{.test = lock_that_librbd_renews_is_no_loss},
		{.test = features_that_changed_are_known},
		{.test = exports_of_one_image_are_one_client},
		{0},
	};

	return suite_run("rbd", cases);
}
