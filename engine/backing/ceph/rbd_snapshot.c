/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_snapshot.h"

#include "engine/backing/ceph/rbd_checkpoint.h"
#include "engine/backing/ceph/rbd_lock.h"
#include "engine/backing/ceph/rbd_loss.h"
#include "engine/backing/ceph/rbd_pending.h"
#include "engine/backing/ceph/rbd_removal.h"
#include "engine/backing/ceph/rbd_thread.h"

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* How much of the label is in the name, in bytes. */
#define LABEL_MAX 64

struct backing_snapshot {
	struct rbd_store *store;
	char name[RBD_CHECKPOINT_NAME_MAX + 1]; /* in the cluster; others have shorter ones */
	bool checkpoint, started, kept;
	int64_t limit; /* of cluster-timeout; clock_ms(), INT64_MAX: none */

	pthread_mutex_t mutex; /* guards the members below */
	pthread_cond_t over;
	bool done;
	bool left; /* nobody waits any more: the thread frees it */
	int result;
};

/* ---- preparing */

/* Ceph's tools take some characters for parts of an image's name. */
static bool
is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_';
}

static int
choose_name(struct backing_snapshot *snapshot, const char *label)
{
	char plain[LABEL_MAX + 1] = "";
	uint64_t id;

	for (size_t i = 0; label[i] && i < LABEL_MAX; i++)
		plain[i] = is_plain(label[i]) ? label[i] : '_';
	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return -errno;
	/* The id keeps it from another server's, also when this one removes what came too late. */
	snprintf(snapshot->name, sizeof(snapshot->name), "%s%s.%016" PRIx64,
		 snapshot->checkpoint ? RBD_CHECKPOINT_PREFIX : RBD_SNAPSHOT_PREFIX,
		 snapshot->checkpoint ? label : plain, id);
	return 0;
}

static int
check(struct rbd_store *store, char **error)
{
	bool late;

	if (store->name.snapshot)
		return error_set(error, -EINVAL, "%s is a snapshot already", store->path);
	if (!store->facts.writable)
		return error_set(error, -EROFS,
				 "%s is open read-only here, and only who may write to an image in "
				 "Ceph can make a snapshot of it",
				 store->path);
	if (atomic_load(&store->fenced))
		return error_set(error, -ESHUTDOWN,
				 "%s: another client may have the image now; the log says why",
				 store->path);
	if (rbd_pending_is_late(store))
		return error_set(error, -ETIMEDOUT,
				 "%s: the cluster has not answered for %u seconds "
				 "(cluster-timeout); `ceph status` shows its state",
				 store->path, store->timeout);
	pthread_mutex_lock(&store->pending);
	late = store->late_snapshots > 0;
	pthread_mutex_unlock(&store->pending);
	return late ? error_set(error, -ETIMEDOUT,
				"%s: the cluster has not yet answered an earlier request for a "
				"snapshot; `ceph status` shows its state",
				store->path)
		    : 0;
}

static int
prepare(struct rbd_store *store, const char *label, bool checkpoint,
	struct backing_snapshot **result, char **error)
{
	struct backing_snapshot *snapshot;
	int r = check(store, error);

	if (r < 0)
		return r;
	snapshot = calloc(1, sizeof(*snapshot));
	if (!snapshot)
		return -ENOMEM;
	snapshot->checkpoint = checkpoint;
	r = choose_name(snapshot, label);
	if (r < 0) {
		free(snapshot);
		return error_set(error, r, "%s: no name for a snapshot: %s", store->path,
				 strerror(-r));
	}
	snapshot->store = store;
	pthread_mutex_init(&snapshot->mutex, NULL);
	thread_condition_init(&snapshot->over);
	*result = snapshot;
	return 0;
}

int
rbd_snapshot_prepare(struct rbd_store *store, const char *label, struct backing_snapshot **snapshot,
		     char **error)
{
	return prepare(store, label, false, snapshot, error);
}

int
rbd_snapshot_prepare_checkpoint(struct rbd_store *store, const char *name,
				struct backing_snapshot **snapshot, char **error)
{
	return prepare(store, name, true, snapshot, error);
}

/* ---- removing */

/* `made`: it is there. */
static void
remove_now(struct rbd_store *store, const char *name, bool made)
{
	int r = rbd_remove_now(store, name);

	if (r < 0)
		log_warning("%s: the snapshot %s %s left: %s; `rbd snap rm` removes it",
			    store->path, name, made ? "is" : "may be", strerror(-r));
}

void
rbd_snapshot_remove(struct rbd_store *store, const char *name)
{
	struct backing_removal *removal;

	if (rbd_removal_start(store, name, &removal) == 0)
		rbd_removal_await(removal, 0);
	else
		remove_now(store, name, true);
}

static void
snapshot_free(struct backing_snapshot *snapshot)
{
	pthread_cond_destroy(&snapshot->over);
	pthread_mutex_destroy(&snapshot->mutex);
	free(snapshot);
}

/* Frees one whose making has ended. After a failure it may be there all the same. */
static void
discard(struct backing_snapshot *snapshot)
{
	/* One of that name which was there before is not ours. */
	if (!snapshot->kept && snapshot->result != -EEXIST)
		remove_now(snapshot->store, snapshot->name, snapshot->result == 0);
	snapshot_free(snapshot);
}

/* ---- making */

static void *
make(void *data)
{
	struct backing_snapshot *snapshot = data;
	struct rbd_store *store = snapshot->store;
	bool left;
	int r;

	rbd_lock_borrow(store);
	r = store->module->snapshot_create(store->image, snapshot->name);
	/* EROFS tells of no loss here: librbd refuses a snapshot so, too, of an image that has
	 * features which it does not know. */
	rbd_loss_note(store, false, r);
	/* One that was made after the loss has the new owner's writes. */
	if (r == 0 && atomic_load(&store->fenced))
		r = -ESHUTDOWN;
	if (r == 0 && snapshot->checkpoint)
		r = rbd_checkpoint_judge(store, snapshot->name);
	pthread_mutex_lock(&snapshot->mutex);
	snapshot->result = r;
	snapshot->done = true;
	left = snapshot->left;
	pthread_cond_signal(&snapshot->over);
	pthread_mutex_unlock(&snapshot->mutex);
	if (left) {
		discard(snapshot);
		pthread_mutex_lock(&store->pending);
		store->late_snapshots--;
		pthread_mutex_unlock(&store->pending);
	}
	rbd_lock_give_back(store);
	rbd_thread_end(store);
	return NULL;
}

int
rbd_snapshot_start(struct backing_snapshot *snapshot, char **error)
{
	struct rbd_store *store = snapshot->store;
	int r = rbd_thread_start(store, make, snapshot);

	if (r < 0)
		return error_set(error, r, "%s: no thread can be started: %s", store->path,
				 strerror(-r));
	snapshot->started = true;
	snapshot->limit = store->timeout > 0
				  ? clock_ms(CLOCK_MONOTONIC) + (int64_t)store->timeout * 1000
				  : INT64_MAX;
	return 0;
}

static const char *
way_out(int r)
{
	switch (r) {
	case -EDQUOT: return "; `rbd snap limit` shows and changes the limit";
	case -EPERM:
	case -EACCES: return "; the user of Ceph needs the right to, as profile rbd has it";
	case -EROFS:
		return "; its lock can't be had, or it has features that librbd does not know: "
		       "`rbd lock ls` and `rbd info` show them";
	case -ESHUTDOWN: return ": another client may have the image now; the log says why";
	case -ETIMEDOUT: return "; `ceph status` shows the cluster's state";
	default: return "";
	}
}

/* What rbd_checkpoint_judge() has found, or NULL. */
static const char *
verdict(const struct backing_snapshot *snapshot, int r)
{
	if (!snapshot->checkpoint)
		return NULL;
	switch (r) {
	case -ENOTUNIQ: return "another server has begun a checkpoint of that name meanwhile";
	case -ENOSPC: return "it has as many checkpoints as it may have; delete one";
	case -ENOENT: return "another client of Ceph has removed the checkpoint meanwhile";
	default: return NULL;
	}
}

int
rbd_snapshot_await(struct backing_snapshot *snapshot, int64_t end, char **error)
{
	const char *path = snapshot->store->path;
	int64_t left;
	bool done;
	int r;

	if (snapshot->limit < end)
		end = snapshot->limit;
	pthread_mutex_lock(&snapshot->mutex);
	while (!snapshot->done && (left = end - clock_ms(CLOCK_MONOTONIC)) > 0)
		thread_wait(&snapshot->over, &snapshot->mutex, (unsigned int)left);
	done = snapshot->done;
	r = snapshot->result;
	pthread_mutex_unlock(&snapshot->mutex);
	if (!done)
		return error_set(error, -ETIMEDOUT,
				 "%s: the cluster has not made a snapshot for some seconds, and "
				 "changes waited for it; `ceph status` shows its state",
				 path);
	if (verdict(snapshot, r))
		return error_set(error, r, "%s: %s", path, verdict(snapshot, r));
	return r == 0 ? 0
		      : error_set(error, r, "%s: Ceph makes no snapshot of it: %s%s", path,
				  strerror(-r), way_out(r));
}

/* ---- the end */

static void *
discard_later(void *data)
{
	struct backing_snapshot *snapshot = data;
	struct rbd_store *store = snapshot->store;

	discard(snapshot);
	rbd_thread_end(store);
	return NULL;
}

/* Returns whether the thread that makes it does the rest. */
static bool
leave(struct backing_snapshot *snapshot)
{
	struct rbd_store *store = snapshot->store;
	bool done;

	pthread_mutex_lock(&snapshot->mutex);
	done = snapshot->done;
	if (!done) {
		snapshot->left = true;
		log_warning("%s: the snapshot %s is removed as soon as the cluster has made it",
			    store->path, snapshot->name);
		pthread_mutex_lock(&store->pending);
		store->late_snapshots++;
		pthread_mutex_unlock(&store->pending);
	}
	pthread_mutex_unlock(&snapshot->mutex);
	return !done;
}

void
rbd_snapshot_free(struct backing_snapshot *snapshot)
{
	if (snapshot->started && leave(snapshot))
		return;
	if (!snapshot->started || snapshot->kept)
		snapshot_free(snapshot);
	else if (rbd_thread_start(snapshot->store, discard_later, snapshot) < 0)
		discard(snapshot);
}

struct rbd_store *
rbd_snapshot_origin(const struct backing_snapshot *snapshot)
{
	return snapshot->store;
}

const char *
rbd_snapshot_name(const struct backing_snapshot *snapshot)
{
	return snapshot->name;
}

void
rbd_snapshot_keep(struct backing_snapshot *snapshot)
{
	snapshot->kept = true;
}
