/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/engine/rbd_fixture.h"

#include "tests/lib/suite.h"

#include "engine/backing/ceph/rbd_search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rbd_image {
	rbd_returned returned;
};

struct fake_ceph ceph;
pthread_mutex_t ceph_snapping = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t ceph_sizing = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t ceph_searching = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t ceph_locking = PTHREAD_MUTEX_INITIALIZER;

static int
fake_open(const struct rbd_place *place, rbd_returned returned, struct rbd_image **image,
	  struct rbd_facts *facts, char **error)
{
	(void)error;
	*image = calloc(1, sizeof(**image));
	ck_assert_ptr_nonnull(*image);
	(*image)->returned = returned;
	*facts = (struct rbd_facts){.writable = !place->read_only};
	snprintf(facts->identity, sizeof(facts->identity), "%s", place->image);
	ceph.open++;
	return 0;
}

static void
come_back(struct rbd_image *image);

/* Waits for the calls, as librbd does. */
static void
fake_close(struct rbd_image *image)
{
	const struct rbd_store *store = ceph.held ? ceph.held->backing : NULL;

	if (store) {
		come_back(image);
		ck_assert_ptr_null(store->oldest);
	}
	ceph.open--;
	free(image);
}

static void
fake_start(struct rbd_image *image, struct backing_call *call)
{
	ceph.started++;
	if (ceph.away) {
		call->next = NULL;
		*ceph.held_tail = call;
		ceph.held_tail = &call->next;
		return;
	}
	if (call->op == CALL_WRITE && !ceph.acquired)
		ceph.early++;
	ceph.flushes += call->op == CALL_FLUSH;
	image->returned(call, call->op == CALL_WRITE && ceph.result == 0 ? (int)call->length
									 : ceph.result);
}

static int64_t
fake_size(struct rbd_image *image)
{
	int64_t size;

	(void)image;
	pthread_mutex_lock(&ceph_sizing);
	size = atomic_load(&ceph.size);
	pthread_mutex_unlock(&ceph_sizing);
	return size;
}

static int
fake_features(struct rbd_image *image, uint64_t *features)
{
	(void)image;
	*features = atomic_load(&ceph.features);
	return 0;
}

static int
fake_watch(struct rbd_image *image, void (*updated)(void *data), void *data)
{
	(void)image;
	ceph.updated = updated;
	ceph.data = data;
	return 0;
}

static int
fake_extents(struct rbd_image *image, uint64_t offset, uint64_t length, bool one, bool whole,
	     extent_visit visit, void *data)
{
	uint64_t part = ceph.extent > 0 ? ceph.extent : length;
	int r = 0;

	(void)image;
	(void)whole;
	atomic_fetch_add(&ceph.searches, 1);
	pthread_mutex_lock(&ceph_searching);
	pthread_mutex_unlock(&ceph_searching);
	if (ceph.result < 0)
		return ceph.result;
	/* Every other one is a hole. */
	for (uint64_t at = offset; r == 0 && at < offset + length; at += part) {
		r = visit(data, at, part, at / part % 2);
		if (one)
			break;
	}
	return r;
}

static int
fake_lock_owner(struct rbd_image *image, struct rbd_owner *owner)
{
	(void)image;
	pthread_mutex_lock(&ceph_locking);
	*owner = ceph.owner;
	if (owner->own && ceph.renewals > 0) {
		owner->own = false;
		ceph.renewals--;
	}
	pthread_mutex_unlock(&ceph_locking);
	atomic_fetch_add(&ceph.questions, 1);
	return 0;
}

static int
fake_answers(struct rbd_image *image, const char *address)
{
	(void)image;
	ck_assert_str_eq(address, ceph.owner.address);
	ceph.answers++;
	return !ceph.silent;
}

static int
fake_lock_acquire(struct rbd_image *image)
{
	(void)image;
	/* A thief gives it up when asked. */
	if (ceph.owner.address[0] && !ceph.owner.own && !ceph.thief)
		return -EROFS;
	if (ceph.refusals-- > 0)
		return -EAGAIN;
	ceph.acquired = true;
	pthread_mutex_lock(&ceph_locking);
	if (!ceph.owner.own)
		ceph.owner = (struct rbd_owner){"127.0.0.1:0/7", .watches = true, .own = true};
	pthread_mutex_unlock(&ceph_locking);
	return 0;
}

static int
fake_lock_release(struct rbd_image *image)
{
	(void)image;
	if (!ceph.stuck)
		ceph.owner = (struct rbd_owner){0};
	atomic_fetch_add(&ceph.released, 1);
	return 0;
}

static int
fake_lock_break(struct rbd_image *image, const char *address)
{
	(void)image;
	snprintf(ceph.broken, sizeof(ceph.broken), "%s", address);
	ceph.owner = (struct rbd_owner){.watches = ceph.thief};
	if (ceph.thief)
		snprintf(ceph.owner.address, sizeof(ceph.owner.address), "%s", ceph.thief);
	return 0;
}

static int
fake_snapshot_create(struct rbd_image *image, const char *name)
{
	(void)image;
	pthread_mutex_lock(&ceph_snapping);
	pthread_mutex_unlock(&ceph_snapping);
	if (ceph.result < 0)
		return ceph.result;
	snprintf(ceph.snapshot, sizeof(ceph.snapshot), "%s", name);
	atomic_fetch_add(&ceph.snapped, 1);
	return 0;
}

static int
fake_snapshot_remove(struct rbd_image *image, const char *name)
{
	(void)image;
	pthread_mutex_lock(&ceph_snapping);
	pthread_mutex_unlock(&ceph_snapping);
	if (strcmp(name, ceph.snapshot) != 0)
		return -ENOENT;
	ceph.snapshot[0] = '\0';
	atomic_fetch_add(&ceph.unsnapped, 1);
	return 0;
}

static int
fake_snapshots(struct rbd_image *image, rbd_snapshot_visit visit, void *data)
{
	(void)image;
	if (ceph.listing < 0)
		return ceph.listing;
	/* In any order. */
	for (size_t i = ceph.count; i > 0; i--)
		visit(data, &ceph.snapshots[i - 1]);
	return 0;
}

static int
fake_changes(struct rbd_image *image, const char *since, uint64_t offset, uint64_t length,
	     extent_visit visit, void *data)
{
	snprintf(ceph.since, sizeof(ceph.since), "%s", since);
	return fake_extents(image, offset, length, false, false, visit, data);
}

const struct rbd_module ceph_module = {
	.open = fake_open,
	.close = fake_close,
	.start = fake_start,
	.extents = fake_extents,
	.size = fake_size,
	.features = fake_features,
	.watch = fake_watch,
	.lock_owner = fake_lock_owner,
	.answers = fake_answers,
	.lock_acquire = fake_lock_acquire,
	.lock_release = fake_lock_release,
	.lock_break = fake_lock_break,
	.snapshot_create = fake_snapshot_create,
	.snapshot_remove = fake_snapshot_remove,
	.snapshots = fake_snapshots,
	.changes = fake_changes,
};

struct rbd_store *
ceph_get_place(const struct rbd_place *place)
{
	struct rbd_store *store;
	char *error = NULL;

	ck_assert_int_eq(rbd_store_get(&ceph_module, place, &store, &error), 0);
	return store;
}

struct rbd_store *
ceph_get(const char *image, bool read_only)
{
	return ceph_get_place(
		&(struct rbd_place){CEPH_PLACE, .image = image, .read_only = read_only});
}

void
ceph_begin(const struct rbd_owner *owner)
{
	memset(&ceph, 0, sizeof(ceph));
	ceph.held_tail = &ceph.held;
	atomic_store(&ceph.features, RBD_HAS_EXCLUSIVE_LOCK);
	if (owner)
		ceph.owner = *owner;
}

int
ceph_search(struct rbd_store *store, uint64_t length, bool one, extent_visit visit, void *data)
{
	return rbd_search_extents(ceph_backing(store), 0, length, one, visit, data);
}

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

void
ceph_start_data(struct rbd_store *store, struct waiter *waiter, enum call_op op, uint64_t offset,
		void *data, size_t length)
{
	*waiter = (struct waiter){
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.over = PTHREAD_COND_INITIALIZER,
		.call = {.op = op,
			 .offset = offset,
			 .length = length,
			 .buffer = data,
			 .done = done,
			 .owner = waiter},
	};
	rbd_store_start(ceph_backing(store), &waiter->call);
}

void
ceph_start(struct rbd_store *store, struct waiter *waiter, enum call_op op, uint64_t offset,
	   uint64_t length)
{
	ceph_start_data(store, waiter, op, offset, NULL, (size_t)length);
}

static void
come_back(struct rbd_image *image)
{
	struct backing_call *call = ceph.held;

	ceph.away = false;
	ceph.held = NULL;
	ceph.held_tail = &ceph.held;
	while (call) {
		struct backing_call *next = call->next;

		fake_start(image, call);
		call = next;
	}
}

void
ceph_come_back(struct rbd_store *store)
{
	come_back(store->image);
}

int
ceph_await(struct waiter *waiter)
{
	pthread_mutex_lock(&waiter->mutex);
	while (!waiter->done)
		pthread_cond_wait(&waiter->over, &waiter->mutex);
	pthread_mutex_unlock(&waiter->mutex);
	return waiter->result;
}

bool
ceph_is_done(struct waiter *waiter)
{
	bool done;

	pthread_mutex_lock(&waiter->mutex);
	done = waiter->done;
	pthread_mutex_unlock(&waiter->mutex);
	return done;
}

int
ceph_call_at(struct rbd_store *store, enum call_op op, uint64_t offset, uint64_t length)
{
	struct waiter waiter;

	ceph_start(store, &waiter, op, offset, length);
	return ceph_await(&waiter);
}

int
ceph_call(struct rbd_store *store, enum call_op op)
{
	return ceph_call_at(store, op, 0, 0);
}
