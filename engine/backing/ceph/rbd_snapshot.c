/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_snapshot.h"

#include "engine/backing/ceph/rbd_checkpoint.h"
#include "engine/backing/ceph/rbd_lock.h"
#include "engine/backing/ceph/rbd_loss.h"
#include "engine/backing/ceph/rbd_pending.h"

#include "common/clock.h"
#include "common/container_of.h"
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

/* An order to the cluster: a job that others wait for, but not for ever. */
struct order {
	struct rbd_job job;
	struct rbd_store *store;
	char name[RBD_CHECKPOINT_NAME_MAX + 1]; /* of the snapshot; others have shorter ones */

	pthread_mutex_t mutex; /* guards the members below */
	pthread_cond_t over;
	bool done;
	bool left;                  /* nobody waits any more: the job frees it */
	_Atomic unsigned int *late; /* then counts it, or is NULL */
	int result;
};

struct backing_snapshot {
	struct order order;
	bool checkpoint, started, kept;
	int64_t limit; /* of cluster-timeout; clock_ms(), INT64_MAX: none */
};

struct backing_removal {
	struct order order;
};

/* ---- orders */

static void
order_init(struct order *order, struct rbd_store *store, void (*run)(struct rbd_job *job))
{
	order->job = (struct rbd_job){.run = run, .waits = true, .count = &store->jobs};
	order->store = store;
	pthread_mutex_init(&order->mutex, NULL);
	thread_condition_init(&order->over);
}

static void
order_fini(struct order *order)
{
	pthread_cond_destroy(&order->over);
	pthread_mutex_destroy(&order->mutex);
}

/* To be called by the job. Returns whether nobody waits any more, and the job does the rest. */
static bool
order_end(struct order *order, int result)
{
	bool left;

	pthread_mutex_lock(&order->mutex);
	order->result = result;
	order->done = true;
	left = order->left;
	pthread_cond_signal(&order->over);
	pthread_mutex_unlock(&order->mutex);
	return left;
}

/* Waits for the job, up to a time of clock_ms(CLOCK_MONOTONIC). Returns whether it is done. */
static bool
order_await(struct order *order, int64_t end)
{
	int64_t ms;
	bool done;

	pthread_mutex_lock(&order->mutex);
	while (!order->done && (ms = end - clock_ms(CLOCK_MONOTONIC)) > 0)
		thread_wait(&order->over, &order->mutex, (unsigned int)ms);
	done = order->done;
	pthread_mutex_unlock(&order->mutex);
	return done;
}

/* Leaves the rest to the job if it is not done, and has `late` count it until then. Returns whether
 * it does. */
static bool
order_leave(struct order *order, _Atomic unsigned int *late)
{
	bool left;

	pthread_mutex_lock(&order->mutex);
	left = order->left = !order->done;
	order->late = late;
	if (left && late)
		atomic_fetch_add(late, 1);
	pthread_mutex_unlock(&order->mutex);
	return left;
}

/* ---- the jobs */

/* Removes the snapshot of that name, as a job. Returns 0, also if there was none, or -errno. */
static int
remove_now(struct rbd_store *store, const char *name)
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

/* `made`: it is there. */
static void
remove_and_tell(struct rbd_store *store, const char *name, bool made)
{
	int r = remove_now(store, name);

	if (r < 0)
		log_warning("%s: the snapshot %s %s left: %s; `rbd snap rm` removes it",
			    store->path, name, made ? "is" : "may be", strerror(-r));
}

static void
snapshot_free(struct backing_snapshot *snapshot)
{
	order_fini(&snapshot->order);
	free(snapshot);
}

/* Frees one whose making has ended. After a failure it may be there all the same. */
static void
rbd_snapshot_discard(struct backing_snapshot *snapshot)
{
	const struct order *order = &snapshot->order;

	/* One of that name which was there before is not ours. */
	if (!snapshot->kept && order->result != -EEXIST)
		remove_and_tell(order->store, order->name, order->result == 0);
	snapshot_free(snapshot);
}

static void
discard_later(struct rbd_job *job)
{
	rbd_snapshot_discard(container_of(job, struct backing_snapshot, order.job));
}

static void
rbd_snapshot_make(struct rbd_job *job)
{
	struct backing_snapshot *snapshot = container_of(job, struct backing_snapshot, order.job);
	struct rbd_store *store = snapshot->order.store;
	int r;

	rbd_lock_borrow(store);
	r = store->module->snapshot_create(store->image, snapshot->order.name);
	/* EROFS tells of no loss here: librbd refuses a snapshot so, too, of an image that has
	 * features which it does not know. */
	rbd_loss_note(store, false, r);
	/* One that was made after the loss has the new owner's writes. */
	if (r == 0 && atomic_load(&store->fenced))
		r = -ESHUTDOWN;
	if (r == 0 && snapshot->checkpoint)
		r = rbd_checkpoint_judge(store, snapshot->order.name);
	if (order_end(&snapshot->order, r)) {
		rbd_snapshot_discard(snapshot);
		atomic_fetch_sub(&store->late_snapshots, 1);
	}
	rbd_lock_give_back(store);
}

/* ---- making one */

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
	snprintf(snapshot->order.name, sizeof(snapshot->order.name), "%s%s.%016" PRIx64,
		 snapshot->checkpoint ? RBD_CHECKPOINT_PREFIX : RBD_SNAPSHOT_PREFIX,
		 snapshot->checkpoint ? label : plain, id);
	return 0;
}

static int
rbd_snapshot_check(struct rbd_store *store, char **error)
{
	if (store->name.snapshot)
		return error_set(error, -EINVAL, "%s is a snapshot already", store->path);
	if (!store->facts.writable)
		return error_set(
			error, -EROFS,
			"%s is open read-only here: ask a server that may write to the image for a snapshot",
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
	return atomic_load(&store->late_snapshots) > 0
		       ? error_set(error, -ETIMEDOUT,
				   "%s: the cluster has not yet answered an earlier request for a "
				   "snapshot; `ceph status` shows its state",
				   store->path)
		       : 0;
}

int
rbd_snapshot_prepare(struct rbd_store *store, const char *label, bool checkpoint,
		     struct backing_snapshot **result, char **error)
{
	struct backing_snapshot *snapshot;
	int r = rbd_snapshot_check(store, error);

	if (r < 0)
		return r;
	snapshot = calloc(1, sizeof(*snapshot));
	if (!snapshot)
		return -ENOMEM;
	snapshot->checkpoint = checkpoint;
	r = choose_name(snapshot, label);
	if (r < 0) {
		free(snapshot);
		return error_set(error, r, "%s: cannot choose a name for the snapshot: %s",
				 store->path, strerror(-r));
	}
	order_init(&snapshot->order, store, rbd_snapshot_make);
	*result = snapshot;
	return 0;
}

int
rbd_snapshot_start(struct backing_snapshot *snapshot, char **error)
{
	const struct rbd_store *store = snapshot->order.store;

	(void)error;
	snapshot->started = true;
	snapshot->limit = store->timeout > 0
				  ? clock_ms(CLOCK_MONOTONIC) + (int64_t)store->timeout * 1000
				  : INT64_MAX;
	rbd_job_add(&snapshot->order.job, 0);
	return 0;
}

static const char *
snapshot_way_out(int r)
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
rbd_snapshot_verdict(const struct backing_snapshot *snapshot, int r)
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
	const char *path = snapshot->order.store->path;
	int r;

	if (!order_await(&snapshot->order, snapshot->limit < end ? snapshot->limit : end))
		return error_set(
			error, -ETIMEDOUT,
			"%s: no snapshot, because the cluster did not make it within some seconds, and changes were waiting; `ceph status` shows its state",
			path);
	r = snapshot->order.result;
	if (rbd_snapshot_verdict(snapshot, r))
		return error_set(error, r, "%s: %s", path, rbd_snapshot_verdict(snapshot, r));
	return r == 0 ? 0
		      : error_set(error, r, "%s: Ceph cannot make a snapshot: %s%s", path,
				  strerror(-r), snapshot_way_out(r));
}

void
rbd_snapshot_free(struct backing_snapshot *snapshot)
{
	struct order *order = &snapshot->order;
	const char *path = order->store->path;
	char name[sizeof(order->name)];

	/* The job may free the order at once. */
	strcpy(name, order->name);
	if (snapshot->started && order_leave(order, &order->store->late_snapshots)) {
		log_warning("%s: the snapshot %s is removed as soon as the cluster has made it",
			    path, name);
	} else if (!snapshot->started || snapshot->kept) {
		snapshot_free(snapshot);
	} else {
		order->job.run = discard_later;
		rbd_job_add(&order->job, 0);
	}
}

struct rbd_store *
rbd_snapshot_origin(const struct backing_snapshot *snapshot)
{
	return snapshot->order.store;
}

const char *
rbd_snapshot_name(const struct backing_snapshot *snapshot)
{
	return snapshot->order.name;
}

void
rbd_snapshot_keep(struct backing_snapshot *snapshot)
{
	snapshot->kept = true;
}

/* ---- removals */

static void
removal_free(struct backing_removal *removal)
{
	order_fini(&removal->order);
	free(removal);
}

static void
carry_out_removal(struct rbd_job *job)
{
	struct backing_removal *removal = container_of(job, struct backing_removal, order.job);
	struct rbd_store *store = removal->order.store;
	int r = remove_now(store, removal->order.name);

	if (!order_end(&removal->order, r))
		return;
	if (removal->order.late)
		atomic_fetch_sub(removal->order.late, 1);
	if (r < 0)
		log_warning("%s: the snapshot %s is left: %s; `rbd snap rm` removes it",
			    store->path, removal->order.name, strerror(-r));
	removal_free(removal);
}

/* Begins to remove the snapshot of that name. Returns NULL without memory. */
static struct backing_removal *
removal_start(struct rbd_store *store, const char *name)
{
	struct backing_removal *removal = calloc(1, sizeof(*removal));

	if (!removal)
		return NULL;
	order_init(&removal->order, store, carry_out_removal);
	snprintf(removal->order.name, sizeof(removal->order.name), "%s", name);
	rbd_job_add(&removal->order.job, 0);
	return removal;
}

void
rbd_snapshot_remove(struct rbd_store *store, const char *name)
{
	struct backing_removal *removal = removal_start(store, name);

	if (!removal)
		remove_and_tell(store, name, true);
	else if (!order_leave(&removal->order, NULL))
		removal_free(removal);
}

int
rbd_snapshot_remove_checkpoint(const struct backing *backing, uint64_t id, bool anyway,
			       struct backing_removal **removal, char **error)
{
	struct rbd_store *store = rbd_store_of(backing);
	char name[RBD_CHECKPOINT_NAME_MAX + 1];

	*removal = NULL;
	if (!rbd_checkpoint_name(store, id, name))
		return 0;
	if (!store->facts.writable)
		return error_set(
			error, -EROFS,
			"%s is open read-only here: ask a server that may write to the image to end its checkpoints",
			store->path);
	if (!anyway && (atomic_load(&store->late_removals) > 0 || rbd_pending_is_late(store)))
		return error_set(error, -ETIMEDOUT,
				 "%s: the cluster has not yet answered earlier requests; `ceph "
				 "status` shows its state",
				 store->path);
	*removal = removal_start(store, name);
	return *removal ? 0 : -ENOMEM;
}

static const char *
removal_way_out(int r)
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

int
rbd_snapshot_await_removal(struct backing_removal *removal, int64_t end, char **error)
{
	struct rbd_store *store = removal->order.store;
	int64_t limit = clock_ms(CLOCK_MONOTONIC) + store->timeout * INT64_C(1000);
	int r;

	order_await(&removal->order, store->timeout > 0 && limit < end ? limit : end);
	if (order_leave(&removal->order, &store->late_removals))
		return error_set(
			error, -ETIMEDOUT,
			"%s: the cluster needs more than some seconds to remove the checkpoint, and continues with it; `ceph status` shows its state",
			store->path);
	r = removal->order.result;
	removal_free(removal);
	return r == 0 ? 0
		      : error_set(error, r, "%s: Ceph cannot remove the checkpoint: %s%s",
				  store->path, strerror(-r), removal_way_out(r));
}
