/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_removal.h"

#include "engine/backing/ceph/rbd_checkpoint.h"
#include "engine/backing/ceph/rbd_lock.h"
#include "engine/backing/ceph/rbd_loss.h"
#include "engine/backing/ceph/rbd_pending.h"
#include "engine/backing/ceph/rbd_thread.h"

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct backing_removal {
	struct rbd_store *store;
	pthread_mutex_t mutex; /* guards the members below */
	pthread_cond_t over;
	bool done;
	bool left; /* nobody waits any more: the thread frees it */
	bool late; /* because it took too long */
	int result;
	char name[];
};

static void
removal_free(struct backing_removal *removal)
{
	pthread_cond_destroy(&removal->over);
	pthread_mutex_destroy(&removal->mutex);
	free(removal);
}

int
rbd_remove_now(struct rbd_store *store, const char *name)
{
	int r;

	rbd_lock_borrow(store);
	r = atomic_load(&store->fenced) ? -ESHUTDOWN
					: store->module->snapshot_remove(store->image, name);
	rbd_loss_note(store, false, r);
	rbd_lock_give_back(store);
	rbd_checkpoints_learn(store);
	return r == -ENOENT ? 0 : r;
}

static void *
run(void *data)
{
	struct backing_removal *removal = data;
	struct rbd_store *store = removal->store;
	int r = rbd_remove_now(store, removal->name);
	bool left;

	pthread_mutex_lock(&removal->mutex);
	removal->result = r;
	removal->done = true;
	left = removal->left;
	pthread_cond_signal(&removal->over);
	pthread_mutex_unlock(&removal->mutex);
	if (left) {
		pthread_mutex_lock(&store->pending);
		store->late_removals -= removal->late;
		pthread_mutex_unlock(&store->pending);
		if (r < 0)
			log_warning("%s: the snapshot %s is left: %s; `rbd snap rm` removes it",
				    store->path, removal->name, strerror(-r));
		removal_free(removal);
	}
	rbd_thread_end(store);
	return NULL;
}

int
rbd_removal_start(struct rbd_store *store, const char *name, struct backing_removal **result)
{
	struct backing_removal *removal = calloc(1, sizeof(*removal) + strlen(name) + 1);
	int r;

	if (!removal)
		return -ENOMEM;
	removal->store = store;
	strcpy(removal->name, name);
	pthread_mutex_init(&removal->mutex, NULL);
	thread_condition_init(&removal->over);
	r = rbd_thread_start(store, run, removal);
	if (r < 0)
		removal_free(removal);
	else
		*result = removal;
	return r;
}

int
rbd_removal_await(struct backing_removal *removal, int64_t end)
{
	int64_t ms;
	bool done;
	int r;

	pthread_mutex_lock(&removal->mutex);
	while (!removal->done && (ms = end - clock_ms(CLOCK_MONOTONIC)) > 0)
		thread_wait(&removal->over, &removal->mutex, (unsigned int)ms);
	done = removal->done;
	removal->left = !done;
	removal->late = !done && end > 0;
	if (removal->late) {
		pthread_mutex_lock(&removal->store->pending);
		removal->store->late_removals++;
		pthread_mutex_unlock(&removal->store->pending);
	}
	r = done ? removal->result : -EINPROGRESS;
	pthread_mutex_unlock(&removal->mutex);
	if (done)
		removal_free(removal);
	return r;
}

/* ---- checkpoints */

static const char *
way_out(int r)
{
	switch (r) {
	case -EBUSY: return "; `rbd snap unprotect` if it is protected, and its clones need it";
	case -EPERM:
	case -EACCES: return "; the user of Ceph needs the right to, as profile rbd has it";
	case -EROFS: return "; its lock can't be had: `rbd lock ls` shows who has it";
	case -ESHUTDOWN: return ": another client may have the image now; the log says why";
	default: return "";
	}
}

/* Whether the cluster is known not to answer. */
static bool
is_late(struct rbd_store *store)
{
	bool late;

	pthread_mutex_lock(&store->pending);
	late = store->late_removals > 0;
	pthread_mutex_unlock(&store->pending);
	return late || rbd_pending_is_late(store);
}

int
rbd_checkpoint_remove(struct rbd_store *store, uint64_t id, bool anyway,
		      struct backing_removal **removal, char **error)
{
	char name[RBD_CHECKPOINT_NAME_MAX + 1];
	int r;

	*removal = NULL;
	if (!rbd_checkpoint_name(store, id, name))
		return 0;
	if (!store->facts.writable)
		return error_set(error, -EROFS,
				 "%s is open read-only here, and only who may write to an image in "
				 "Ceph can end its checkpoints",
				 store->path);
	if (!anyway && is_late(store))
		return error_set(error, -ETIMEDOUT,
				 "%s: the cluster has not yet answered earlier requests; `ceph "
				 "status` shows its state",
				 store->path);
	r = rbd_removal_start(store, name, removal);
	return r == 0 ? 0
		      : error_set(error, r, "%s: no thread can be started: %s", store->path,
				  strerror(-r));
}

int
rbd_checkpoint_await_removal(struct backing_removal *removal, int64_t end, char **error)
{
	const struct rbd_store *store = removal->store;
	int64_t limit = clock_ms(CLOCK_MONOTONIC) + store->timeout * INT64_C(1000);
	int r = rbd_removal_await(removal, store->timeout > 0 && limit < end ? limit : end);

	if (r == -EINPROGRESS)
		return error_set(error, -ETIMEDOUT,
				 "%s: the cluster has not ended the checkpoint for some seconds, "
				 "and goes on with it; `ceph status` shows its state",
				 store->path);
	return r == 0 ? 0
		      : error_set(error, r, "%s: Ceph does not remove the checkpoint: %s%s",
				  store->path, strerror(-r), way_out(r));
}
