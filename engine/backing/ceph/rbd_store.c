/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_store.h"

#include "engine/backing/ceph/rbd_checkpoint.h"
#include "engine/backing/ceph/rbd_lock.h"
#include "engine/backing/ceph/rbd_loss.h"
#include "engine/backing/ceph/rbd_pending.h"
#include "engine/backing/ceph/rbd_size.h"
#include "engine/backing/ceph/rbd_snapshot.h"

#include "common/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Guards the list of stores, and their numbers of users. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct rbd_store *stores;

/* On any thread. */
static void
store_call_returned(struct backing_call *call, int result)
{
	struct rbd_store *store = call->backing;

	rbd_loss_note(store, rbd_call_changes(call), result);
	if (result >= 0 && rbd_call_changes(call) && rbd_size_await(store, call, result))
		return;
	rbd_loss_finish(store, call, result);
}

void
rbd_store_start(const struct backing *backing, struct backing_call *call)
{
	struct rbd_store *store = rbd_store_of(backing);

	call->backing = store;
	if (atomic_load_explicit(&store->fenced, memory_order_relaxed)) {
		call->done(call, -ESHUTDOWN);
		return;
	}
	/* Nothing was changed here. For a flush, librbd would take the lock from another client,
	 * and give it away again when asked. */
	if (call->op == CALL_FLUSH && !atomic_load(&store->held) && !atomic_load(&store->changed)) {
		call->done(call, 0);
		return;
	}
	call = rbd_pending_take(store, call);
	if (!call)
		return;
	if (rbd_call_changes(call) && !atomic_load(&store->held)) {
		if (atomic_load(&store->exclusive) && rbd_lock_await(store, call))
			return;
		atomic_store(&store->changed, true);
	}
	rbd_pending_send(store, call);
}

static void
store_free(struct rbd_store *store)
{
	rbd_lock_stop(store);
	rbd_size_end(store);
	rbd_jobs_await(&store->jobs);
	rbd_pending_end(store);
	if (store->image) {
		rbd_lock_release(store);
		store->module->close(store->image);
	}
	if (store->joined)
		rbd_worker_leave();
	if (store->origin) {
		rbd_snapshot_remove(store->origin, store->name.snapshot);
		rbd_store_put(store->origin);
	}
	rbd_checkpoints_free(store);
	pthread_mutex_destroy(&store->listing);
	pthread_mutex_destroy(&store->learning);
	pthread_mutex_destroy(&store->pending);
	pthread_mutex_destroy(&store->following);
	pthread_mutex_destroy(&store->doubting);
	pthread_cond_destroy(&store->taken);
	pthread_mutex_destroy(&store->mutex);
	free(store->name.text);
	free(store->path);
	free(store);
}

static struct rbd_store *
store_new(const struct rbd_module *module, const struct rbd_place *place)
{
	struct rbd_store *store = calloc(1, sizeof(*store));

	if (!store)
		return NULL;
	store->module = module;
	store->timeout = place->timeout;
	store->users = 1;
	pthread_mutex_init(&store->mutex, NULL);
	pthread_mutex_init(&store->doubting, NULL);
	pthread_mutex_init(&store->following, NULL);
	pthread_mutex_init(&store->pending, NULL);
	pthread_mutex_init(&store->learning, NULL);
	pthread_mutex_init(&store->listing, NULL);
	pthread_cond_init(&store->taken, NULL);
	rbd_lock_begin(store);
	store->path = strdup(place->name);
	if (store->path)
		return store;
	store_free(store);
	return NULL;
}

/* Returns the open store of the same image, with another user, or puts this one into the list. */
static struct rbd_store *
store_join(struct rbd_store *opened)
{
	struct rbd_store *store;

	pthread_mutex_lock(&mutex);
	for (store = stores; store; store = store->next) {
		if (strcmp(store->facts.identity, opened->facts.identity) == 0 &&
		    store->facts.writable == opened->facts.writable && !atomic_load(&store->fenced))
			break;
	}
	if (store) {
		store->users++;
	} else {
		store = opened;
		store->next = stores;
		stores = store;
	}
	pthread_mutex_unlock(&mutex);
	if (store != opened)
		store_free(opened);
	return store;
}

/* Gives the store back if it has another timeout. */
static int
check_timeout(struct rbd_store **store, const struct rbd_place *place, char **error)
{
	unsigned int timeout = (*store)->timeout;

	if (timeout == place->timeout)
		return 0;
	rbd_store_put(*store);
	return error_set(error, -EINVAL,
			 "%s: cluster-timeout=%u is not possible: another export of this image has "
			 "%u, and they share the image",
			 place->name, place->timeout, timeout);
}

/* Only an open image tells which one it is, so it is opened before the list is searched. */
int
rbd_store_get(const struct rbd_module *module, const struct rbd_place *place,
	      struct rbd_store **result, char **error)
{
	struct rbd_store *store = store_new(module, place);
	int r;

	if (!store)
		return error_set(error, -ENOMEM, "%s: %s", place->name, strerror(ENOMEM));
	r = rbd_name_parse(place->name, &store->name, error);
	if (r == 0 && (r = rbd_worker_join()) < 0)
		error_set(error, r, "%s: no thread can be started: %s", place->name, strerror(-r));
	store->joined = r == 0;
	if (r == 0)
		r = module->open(place, store_call_returned, &store->image, &store->facts, error);
	if (r == 0 && (r = rbd_size_begin(store)) < 0)
		error_set(error, r, "%s: its size can't be followed: %s", place->name,
			  strerror(-r));
	if (r == 0)
		rbd_pending_begin(store);
	/* After the watch has begun, which tells of later ones. */
	if (r == 0 && (r = rbd_loss_check(store)) < 0)
		error_set(error, r, "%s: its features can't be read: %s", place->name,
			  strerror(-r));
	if (r == 0 && (r = rbd_checkpoints_learn(store)) < 0)
		error_set(error, r, "%s: its checkpoints can't be read: %s", place->name,
			  strerror(-r));
	if (r < 0) {
		store_free(store);
		return r;
	}
	*result = store_join(store);
	return check_timeout(result, place, error);
}

void
rbd_store_put(struct rbd_store *store)
{
	struct rbd_store **at = &stores;
	bool last;

	if (!store)
		return;
	pthread_mutex_lock(&mutex);
	last = --store->users == 0;
	if (last) {
		while (*at != store)
			at = &(*at)->next;
		*at = store->next;
	}
	pthread_mutex_unlock(&mutex);
	if (last)
		store_free(store);
}

void
rbd_store_remove_at_end(struct rbd_store *store, struct rbd_store *origin)
{
	pthread_mutex_lock(&mutex);
	origin->users++;
	pthread_mutex_unlock(&mutex);
	store->origin = origin;
}
