/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/rbd_lock.h"

#include "engine/backing/rbd_loss.h"
#include "engine/backing/rbd_pending.h"

#include "common/log.h"
#include "common/thread.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* How long to wait for an owner that may be dead, in milliseconds, and how often to look. Ceph
 * forgets a client that is gone after 30 seconds (osd_client_watch_timeout). */
#define OWNER_LINGER_MS 40000
#define OWNER_STEP_MS   250

static bool
is_given_up(struct rbd_store *store)
{
	bool stop;

	pthread_mutex_lock(&store->mutex);
	stop = store->stop;
	pthread_mutex_unlock(&store->mutex);
	return stop;
}

/* Sleeps for a step. Returns whether to go on: false if the store is being closed. */
static bool
nap(struct rbd_store *store)
{
	pthread_mutex_lock(&store->mutex);
	if (!store->stop)
		thread_wait(&store->stopping, &store->mutex, OWNER_STEP_MS);
	pthread_mutex_unlock(&store->mutex);
	return !is_given_up(store);
}

/* Takes the lock from an owner that is dead, or that force=on overrides. */
static int
fence(struct rbd_store *store, const struct rbd_owner *owner)
{
	int r = store->module->lock_break(store->image, owner->address);

	if (r == 0)
		log_warning("%s: fenced the client %s, which had the image's lock%s", store->path,
			    owner->address, owner->watches ? " (force=on)" : " and is gone");
	return r;
}

/* Also for the status. */
static int
ask_for_owner(struct rbd_store *store, struct rbd_owner *owner)
{
	int r = store->module->lock_owner(store->image, owner);

	pthread_mutex_lock(&store->mutex);
	snprintf(store->owner, sizeof(store->owner), "%s", r < 0 ? "" : owner->address);
	pthread_mutex_unlock(&store->mutex);
	return r;
}

/* Tries once. Returns 0, -EBUSY if another client has the lock, or another -errno. A lock that
 * librbd has taken by itself (for lock=shared) must be acquired like any other: until then, librbd
 * gives it to whoever asks. */
static int
try_to_take(struct rbd_store *store, struct rbd_owner *owner)
{
	int r = ask_for_owner(store, owner);

	bool other = r == 0 && owner->address[0] && !owner->own;

	if (r < 0)
		return r;
	if (other && owner->watches && !atomic_load(&store->force))
		return -EBUSY;
	if (other)
		r = fence(store, owner);
	/* Another client may have been faster: the next try finds its name. */
	if (r == 0 || r == -ENOENT || r == -EBUSY)
		r = store->module->lock_acquire(store->image);
	if (r == 0)
		ask_for_owner(store, &(struct rbd_owner){0});
	return r == -EROFS || r == -EAGAIN ? -EBUSY : r;
}

static int
take(struct rbd_store *store)
{
	struct rbd_owner owner = {0};
	int r = try_to_take(store, &owner);

	rbd_pending_note_answer(store);
	if (r == -EBUSY && owner.address[0])
		log_warning("%s: the client %s has the image's lock: changes wait until it gives "
			    "the lock up or is gone; with force=on it would be fenced",
			    store->path, owner.address);
	for (int waited = 0; r == -EBUSY && waited < OWNER_LINGER_MS && nap(store);
	     waited += OWNER_STEP_MS) {
		r = try_to_take(store, &owner);
		rbd_pending_note_answer(store);
	}
	if (r == -EBUSY && is_given_up(store))
		return -ESHUTDOWN;
	if (r == -EBUSY)
		log_error(
			"%s: not written to, because the client %s has the image's lock; end that "
			"client first, or use force=on, or lock=shared if both may write",
			store->path, owner.address);
	else if (r < 0)
		log_error("%s: its lock can't be taken: %s", store->path, strerror(-r));
	return r;
}

/* Takes those that wait. The caller holds the mutex. */
static struct backing_call *
waiting_calls(struct rbd_store *store)
{
	struct backing_call *calls = store->waiting;

	store->waiting = NULL;
	store->waiting_tail = &store->waiting;
	return calls;
}

/* Sends them, or has them fail, by how the lock was taken. */
static void
end_wait(struct rbd_store *store, struct backing_call *call, int r)
{
	while (call) {
		struct backing_call *next = call->next;

		if (r == 0)
			rbd_pending_send(store, call);
		else
			rbd_loss_finish(store, call, r);
		call = next;
	}
}

static void *
take_lock(void *data)
{
	struct rbd_store *store = data;
	int r = take(store);
	struct backing_call *calls;

	pthread_mutex_lock(&store->mutex);
	atomic_store(&store->held, r == 0);
	store->taking = false;
	calls = waiting_calls(store);
	pthread_mutex_unlock(&store->mutex);
	end_wait(store, calls, r);
	return NULL;
}

/* The caller holds the mutex. Returns 0 or -errno. */
static int
begin(struct rbd_store *store)
{
	int r;

	if (store->joinable)
		pthread_join(store->thread, NULL);
	r = thread_start(&store->thread, take_lock, store);
	store->taking = store->joinable = r == 0;
	/* Without a thread to be had, it is -EAGAIN: the engine would try the request again by a
	 * system call. */
	return r == -EAGAIN ? -ENOMEM : r;
}

bool
rbd_lock_await(struct rbd_store *store, struct backing_call *call)
{
	int r = 0;
	bool held;

	pthread_mutex_lock(&store->mutex);
	held = atomic_load(&store->held);
	if (!held && !store->taking)
		r = begin(store);
	if (!held && r == 0) {
		call->next = NULL;
		*store->waiting_tail = call;
		store->waiting_tail = &call->next;
	}
	pthread_mutex_unlock(&store->mutex);
	if (r < 0)
		rbd_loss_finish(store, call, r);
	return !held;
}

void
rbd_lock_borrow(struct rbd_store *store)
{
	pthread_mutex_lock(&store->mutex);
	store->borrowers++;
	pthread_mutex_unlock(&store->mutex);
}

static void
release(struct rbd_store *store)
{
	struct rbd_owner owner;
	int r = ask_for_owner(store, &owner);

	if (r == 0 && owner.own) {
		r = store->module->lock_release(store->image);
		ask_for_owner(store, &owner);
	}
	rbd_loss_note(store, false, r);
	if (r < 0)
		log_warning("%s: its lock can't be given back: %s", store->path, strerror(-r));
}

/* Changes that come meanwhile wait until it is given back, and take it then. */
void
rbd_lock_give_back(struct rbd_store *store)
{
	struct backing_call *calls = NULL;
	int r = 0;
	bool give;

	pthread_mutex_lock(&store->mutex);
	give = --store->borrowers == 0 && atomic_load(&store->exclusive) &&
	       !atomic_load(&store->held) && !store->taking && !atomic_load(&store->fenced);
	store->taking = store->taking || give;
	pthread_mutex_unlock(&store->mutex);
	if (!give)
		return;
	release(store);
	pthread_mutex_lock(&store->mutex);
	store->taking = false;
	if (store->waiting)
		r = begin(store);
	if (r < 0)
		calls = waiting_calls(store);
	pthread_mutex_unlock(&store->mutex);
	end_wait(store, calls, r);
}

void
rbd_lock_give_up(struct rbd_store *store)
{
	pthread_mutex_lock(&store->mutex);
	store->stop = true;
	pthread_cond_signal(&store->stopping);
	pthread_mutex_unlock(&store->mutex);
}

void
rbd_lock_stop(struct rbd_store *store)
{
	rbd_lock_give_up(store);
	if (store->joinable)
		pthread_join(store->thread, NULL);
	store->joinable = false;
}
