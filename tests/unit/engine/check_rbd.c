/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images in Ceph, with the test as the module: names, the lock before the first change, and the end
 * of all answers after a loss.
 */
#include "engine/backing/rbd_lock.h"
#include "engine/backing/rbd_name.h"
#include "engine/backing/rbd_store.h"

#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the module */

struct rbd_image {
	rbd_returned returned;
};

static struct {
	struct rbd_owner owner;
	char broken[128]; /* the client that was fenced */
	bool acquired;    /* the lock was taken */
	int early;        /* changes that came before that */
	int flushes;
	int result; /* of calls that move nothing */
	int open;   /* images */
} cluster;

static int
fake_open(const struct rbd_place *place, rbd_returned returned, struct rbd_image **image,
	  struct rbd_facts *facts, char **error)
{
	(void)error;
	*image = calloc(1, sizeof(**image));
	ck_assert_ptr_nonnull(*image);
	(*image)->returned = returned;
	*facts = (struct rbd_facts){.can_lock = true, .writable = !place->read_only};
	snprintf(facts->identity, sizeof(facts->identity), "%s", place->image);
	cluster.open++;
	return 0;
}

static void
fake_close(struct rbd_image *image)
{
	cluster.open--;
	free(image);
}

static void
fake_start(struct rbd_image *image, struct backing_call *call)
{
	if (call->op == CALL_WRITE && !cluster.acquired)
		cluster.early++;
	cluster.flushes += call->op == CALL_FLUSH;
	image->returned(call, cluster.result);
}

static int
fake_lock_owner(struct rbd_image *image, struct rbd_owner *owner)
{
	(void)image;
	*owner = cluster.owner;
	return 0;
}

static int
fake_lock_acquire(struct rbd_image *image)
{
	(void)image;
	if (cluster.owner.address[0] && !cluster.owner.own)
		return -EROFS;
	cluster.acquired = true;
	return 0;
}

static int
fake_lock_break(struct rbd_image *image, const char *address)
{
	(void)image;
	snprintf(cluster.broken, sizeof(cluster.broken), "%s", address);
	cluster.owner.address[0] = '\0';
	return 0;
}

static const struct rbd_module module = {
	.open = fake_open,
	.close = fake_close,
	.start = fake_start,
	.lock_owner = fake_lock_owner,
	.lock_acquire = fake_lock_acquire,
	.lock_break = fake_lock_break,
};

static struct rbd_store *
get(const char *image, bool read_only)
{
	struct rbd_place place = {
		.name = "rbd:pool/disk", .pool = "pool", .image = image, .read_only = read_only};
	struct rbd_store *store;
	char *error = NULL;

	ck_assert_int_eq(rbd_store_get(&module, &place, &store, &error), 0);
	return store;
}

static void
begin(const struct rbd_owner *owner)
{
	memset(&cluster, 0, sizeof(cluster));
	if (owner)
		cluster.owner = *owner;
}

struct waiter {
	struct backing_call call;
	pthread_mutex_t mutex;
	pthread_cond_t over;
	bool done;
	int result;
};

static void
done(struct backing_call *call, int result)
{
	struct waiter *waiter = call->owner;

	pthread_mutex_lock(&waiter->mutex);
	waiter->done = true;
	waiter->result = result;
	pthread_cond_signal(&waiter->over);
	pthread_mutex_unlock(&waiter->mutex);
}

static int
call(struct rbd_store *store, enum call_op op)
{
	struct waiter waiter = {
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.over = PTHREAD_COND_INITIALIZER,
		.call = {.op = op, .done = done, .owner = &waiter},
	};

	rbd_store_start(store, &waiter.call);
	pthread_mutex_lock(&waiter.mutex);
	while (!waiter.done)
		pthread_cond_wait(&waiter.over, &waiter.mutex);
	pthread_mutex_unlock(&waiter.mutex);
	return waiter.result;
}

/* ---- the tests */

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

	ck_assert(rbd_name_is(wrong_names[_i]));
	ck_assert_int_eq(rbd_name_parse(wrong_names[_i], &name, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "rbd:POOL/IMAGE"));
}
END_TEST

START_TEST(file_of_such_a_name_needs_a_directory)
{
	ck_assert(!rbd_name_is("./rbd:rbd/disk"));
	ck_assert(!rbd_name_is("/rbd:rbd/disk"));
}
END_TEST

START_TEST(lock_is_taken_before_the_first_change)
{
	struct rbd_store *store;

	begin(NULL);
	store = get("disk", false);
	atomic_store(&store->exclusive, true);
	ck_assert_int_eq(call(store, CALL_READ), 0);
	ck_assert(!cluster.acquired);
	ck_assert_int_eq(call(store, CALL_WRITE), 0);
	ck_assert(cluster.acquired);
	ck_assert_int_eq(cluster.early, 0);
	rbd_store_put(store);
}
END_TEST

START_TEST(image_that_several_write_needs_no_lock)
{
	struct rbd_store *store;

	begin(NULL);
	store = get("disk", false);
	ck_assert_int_eq(call(store, CALL_WRITE), 0);
	ck_assert(!cluster.acquired);
	rbd_store_put(store);
}
END_TEST

START_TEST(flush_before_the_first_change_leaves_the_lock_alone)
{
	struct rbd_store *store;

	begin(NULL);
	store = get("disk", false);
	ck_assert_int_eq(call(store, CALL_FLUSH), 0);
	atomic_store(&store->exclusive, true);
	ck_assert_int_eq(call(store, CALL_FLUSH), 0);
	ck_assert_int_eq(cluster.flushes, 0);
	ck_assert_int_eq(call(store, CALL_WRITE), 0);
	ck_assert_int_eq(call(store, CALL_FLUSH), 0);
	ck_assert_int_eq(cluster.flushes, 1);
	rbd_store_put(store);
}
END_TEST

START_TEST(flush_of_changes_without_the_lock_is_passed_on)
{
	struct rbd_store *store;

	begin(NULL);
	store = get("disk", false);
	ck_assert_int_eq(call(store, CALL_ZERO), 0);
	ck_assert_int_eq(call(store, CALL_FLUSH), 0);
	ck_assert_int_eq(cluster.flushes, 1);
	rbd_store_put(store);
}
END_TEST

START_TEST(lock_that_librbd_took_by_itself_is_acquired)
{
	struct rbd_store *store;

	begin(&(struct rbd_owner){.address = "this", .watches = true, .own = true});
	store = get("disk", false);
	atomic_store(&store->exclusive, true);
	ck_assert_int_eq(call(store, CALL_WRITE), 0);
	ck_assert(cluster.acquired);
	ck_assert_int_eq(cluster.early, 0);
	ck_assert_str_eq(cluster.broken, "");
	rbd_store_put(store);
}
END_TEST

START_TEST(dead_owner_is_fenced)
{
	struct rbd_store *store;

	begin(&(struct rbd_owner){.address = "dead"});
	store = get("disk", false);
	atomic_store(&store->exclusive, true);
	ck_assert_int_eq(call(store, CALL_WRITE), 0);
	ck_assert_str_eq(cluster.broken, "dead");
	ck_assert_int_eq(cluster.early, 0);
	ck_assert(
		log_capture_has(LOG_LEVEL_WARNING,
				"fenced the client dead, which had the image's lock and is gone"));
	rbd_store_put(store);
}
END_TEST

START_TEST(living_owner_is_fenced_only_with_force)
{
	struct rbd_store *store;
	struct waiter waiter = {
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.over = PTHREAD_COND_INITIALIZER,
		.call = {.op = CALL_WRITE, .done = done, .owner = &waiter},
	};

	begin(&(struct rbd_owner){.address = "living", .watches = true});
	store = get("disk", false);
	atomic_store(&store->exclusive, true);
	/* It waits, and ends with the store. */
	rbd_store_start(store, &waiter.call);
	rbd_lock_stop(store);
	ck_assert(waiter.done);
	ck_assert_int_eq(waiter.result, -EBUSY);
	ck_assert_str_eq(cluster.broken, "");
	store->stop = false;
	atomic_store(&store->force, true);
	ck_assert_int_eq(call(store, CALL_WRITE), 0);
	ck_assert_str_eq(cluster.broken, "living");
	ck_assert_int_eq(cluster.early, 0);
	rbd_store_put(store);
}
END_TEST

START_TEST(nothing_succeeds_after_the_server_was_fenced)
{
	struct rbd_store *store;

	begin(NULL);
	store = get("disk", false);
	atomic_store(&store->exclusive, true);
	ck_assert_int_eq(call(store, CALL_WRITE), 0);
	cluster.result = -ESHUTDOWN;
	ck_assert_int_eq(call(store, CALL_WRITE), -ESHUTDOWN);
	cluster.result = 0;
	ck_assert_int_eq(call(store, CALL_READ), -ESHUTDOWN);
	ck_assert_int_eq(call(store, CALL_FLUSH), -ESHUTDOWN);
	ck_assert(log_capture_has(LOG_LEVEL_ERROR, "another client has fenced this server"));
	rbd_store_put(store);
}
END_TEST

START_TEST(change_refused_without_the_lock_is_a_loss)
{
	struct rbd_store *store;

	begin(NULL);
	store = get("disk", false);
	atomic_store(&store->exclusive, true);
	ck_assert_int_eq(call(store, CALL_WRITE), 0);
	cluster.result = -EROFS;
	ck_assert_int_eq(call(store, CALL_ZERO), -ESHUTDOWN);
	ck_assert(atomic_load(&store->fenced));
	rbd_store_put(store);
}
END_TEST

START_TEST(exports_of_one_image_are_one_client)
{
	struct rbd_store *first, *second, *reader, *other;

	begin(NULL);
	first = get("disk", false);
	second = get("disk", false);
	reader = get("disk", true);
	other = get("other", false);
	ck_assert_ptr_eq(first, second);
	ck_assert_ptr_ne(first, reader);
	ck_assert_ptr_ne(first, other);
	ck_assert_int_eq(cluster.open, 3);
	rbd_store_put(first);
	ck_assert_int_eq(cluster.open, 3);
	rbd_store_put(second);
	rbd_store_put(reader);
	rbd_store_put(other);
	ck_assert_int_eq(cluster.open, 0);
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
		{.name = "one writer", .begin = log_capture_begin, .end = log_capture_end},
		{.test = lock_is_taken_before_the_first_change},
		{.test = image_that_several_write_needs_no_lock},
		{.test = flush_before_the_first_change_leaves_the_lock_alone},
		{.test = flush_of_changes_without_the_lock_is_passed_on},
		{.test = lock_that_librbd_took_by_itself_is_acquired},
		{.test = dead_owner_is_fenced},
		{.test = living_owner_is_fenced_only_with_force},
		{.test = nothing_succeeds_after_the_server_was_fenced},
		{.test = change_refused_without_the_lock_is_a_loss},
		{.test = exports_of_one_image_are_one_client},
		{0},
	};

	return suite_run("rbd", cases);
}
