/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_size.h"

#include "engine/backing/ceph/rbd_checkpoint.h"
#include "engine/backing/ceph/rbd_loss.h"

#include "common/cleanup.h"
#include "common/container_of.h"
#include "common/log.h"

#include <errno.h>
#include <string.h>

/* How soon to ask for the size again after a failure, and to tell a follower again that could not
 * follow, in milliseconds. */
#define ASK_AGAIN_MS  1000
#define TELL_AGAIN_MS 100

/* Has the job ask. The caller holds .doubting. */
static void
size_doubt(struct rbd_store *store)
{
	store->doubts++;
	atomic_store(&store->resized, true);
	if (store->asks)
		rbd_job_add(&store->sizing, 0);
}

void
rbd_size_doubt(struct rbd_store *store)
{
	pthread_mutex_lock(&store->doubting);
	size_doubt(store);
	pthread_mutex_unlock(&store->doubting);
}

/* On a thread of librbd's. */
static void
size_updated(void *data)
{
	rbd_size_doubt(data);
}

/* Returns how much of a change fits into the size as it is known, in bytes. */
static uint64_t
size_fitting(const struct rbd_store *store, const struct backing_call *call)
{
	uint64_t size = atomic_load(&store->size);
	uint64_t left = call->offset < size ? size - call->offset : 0;

	return call->length < left ? call->length : left;
}

bool
rbd_size_await(struct rbd_store *store, struct backing_call *call, int result)
{
	bool asks;

	/* A change beyond the end waits for the size, too: another thread may have seen the image
	 * grow before Ceph told of it. */
	if (!atomic_load_explicit(&store->resized, memory_order_acquire) &&
	    (call->op == CALL_DISCARD || size_fitting(store, call) == call->length))
		return false;
	pthread_mutex_lock(&store->doubting);
	/* If not, the call was abandoned, and nobody wants its result. */
	asks = store->asks;
	if (asks) {
		call->result = result;
		call->next = store->unsure;
		store->unsure = call;
		size_doubt(store);
	}
	pthread_mutex_unlock(&store->doubting);
	return asks;
}

/* Returns the result of a change that librbd calls a success. One that was under way when the size
 * changed counts as carried out before that. */
static int
size_judge(const struct rbd_store *store, const struct backing_call *call)
{
	uint64_t length = size_fitting(store, call);

	if (call->op == CALL_DISCARD || length == call->length)
		return call->result;
	return call->op == CALL_WRITE ? (int)length : -EIO;
}

/* Ends the changes that had to wait. Without the size, nobody knows how much of them was carried
 * out; without an answer about the lock, whether another client's came after them. */
static void
size_settle(struct rbd_store *store, struct backing_call *call, bool known)
{
	while (call) {
		struct backing_call *next = call->next;

		rbd_loss_finish(store, call, known ? size_judge(store, call) : -EIO);
		call = next;
	}
}

/* ---- the followers */

void
rbd_size_follow(const struct backing *backing, struct size_follower *follower)
{
	struct rbd_store *store = rbd_store_of(backing);

	pthread_mutex_lock(&store->following);
	follower->behind = true;
	follower->next = store->followers;
	store->followers = follower;
	pthread_mutex_unlock(&store->following);
	/* The size may have changed since the caller asked for it. */
	pthread_mutex_lock(&store->doubting);
	store->untold = true;
	if (store->asks)
		rbd_job_add(&store->sizing, 0);
	pthread_mutex_unlock(&store->doubting);
}

void
rbd_size_unfollow(const struct backing *backing, struct size_follower *follower)
{
	struct rbd_store *store = rbd_store_of(backing);
	struct size_follower **at = &store->followers;

	pthread_mutex_lock(&store->following);
	while (*at && *at != follower)
		at = &(*at)->next;
	if (*at)
		*at = follower->next;
	pthread_mutex_unlock(&store->following);
}

/* Tells those that are behind. Returns whether some still are. */
static bool
size_tell(struct rbd_store *store)
{
	bool behind = false;

	pthread_mutex_lock(&store->following);
	for (struct size_follower *at = store->followers; at; at = at->next) {
		at->behind = at->behind && !at->resized(at->data, at->shrunk);
		at->shrunk = at->shrunk && at->behind;
		behind = behind || at->behind;
	}
	pthread_mutex_unlock(&store->following);
	return behind;
}

/* ---- the job: each step returns for how many milliseconds to rest after it */

static int
size_ask(struct rbd_store *store)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 60);
	int64_t size = store->module->size(store->image);
	int r = size < 0 ? (int)size : rbd_loss_check(store);

	if (size >= 0 && atomic_exchange(&store->size, (uint64_t)size) > (uint64_t)size)
		store->shrunk = true;
	else if (size < 0)
		rbd_loss_note(store, false, r);
	if (r < 0 && r != -ESHUTDOWN && log_limit_pass(&limit, NULL))
		log_error("%s: its size, features and lock can't be read, and changes fail: %s",
			  store->path, strerror(-r));
	store->unlearned = true; /* the update may be one of these */
	return r;
}

/* The caller holds .doubting, which is released meanwhile. */
static unsigned int
size_learn(struct rbd_store *store)
{
	unsigned int doubts = store->doubts;
	struct backing_call *unsure;
	int r;

	pthread_mutex_unlock(&store->doubting);
	r = size_ask(store);
	pthread_mutex_lock(&store->doubting);
	/* With a doubt meanwhile, the answer may be an old one. */
	if (r == 0 && store->doubts != doubts)
		return 0;
	if (r == 0 || r == -ESHUTDOWN)
		atomic_store(&store->resized, false);
	unsure = steal_pointer(&store->unsure);
	store->untold = r == 0;
	pthread_mutex_unlock(&store->doubting);
	size_settle(store, unsure, r == 0);
	if (r == 0) {
		pthread_mutex_lock(&store->following);
		for (struct size_follower *at = store->followers; at; at = at->next) {
			at->behind = true;
			at->shrunk = at->shrunk || store->shrunk;
		}
		pthread_mutex_unlock(&store->following);
		store->shrunk = false;
	}
	pthread_mutex_lock(&store->doubting);
	return atomic_load(&store->resized) && r < 0 ? ASK_AGAIN_MS : 0;
}

/* As size_learn(). */
static unsigned int
tell_the_others(struct rbd_store *store)
{
	bool behind;

	store->untold = false;
	pthread_mutex_unlock(&store->doubting);
	behind = size_tell(store);
	pthread_mutex_lock(&store->doubting);
	store->untold = store->untold || behind;
	return behind && !atomic_load(&store->resized) ? TELL_AGAIN_MS : 0;
}

/* As size_learn(), of the checkpoints. */
static unsigned int
learn_checkpoints(struct rbd_store *store)
{
	int r;

	pthread_mutex_unlock(&store->doubting);
	r = rbd_checkpoints_learn(store);
	pthread_mutex_lock(&store->doubting);
	store->unlearned = r < 0 && r != -ESHUTDOWN;
	return store->unlearned && !atomic_load(&store->resized) ? ASK_AGAIN_MS : 0;
}

static void
size_follow_up(struct rbd_job *job)
{
	struct rbd_store *store = container_of(job, struct rbd_store, sizing);
	unsigned int rest = 0;
	bool more = true;

	pthread_mutex_lock(&store->doubting);
	while (more && rest == 0 && store->asks) {
		if (atomic_load(&store->resized))
			rest = size_learn(store);
		else if (store->unlearned)
			rest = learn_checkpoints(store);
		else if (store->untold)
			rest = tell_the_others(store);
		else
			more = false;
	}
	if (more && store->asks)
		rbd_job_add(job, rest);
	pthread_mutex_unlock(&store->doubting);
}

int
rbd_size_begin(struct rbd_store *store)
{
	int64_t size;
	int r;

	if (!store->facts.writable)
		return 0;
	r = store->module->watch(store->image, size_updated, store);
	if (r < 0)
		return r;
	size = store->module->size(store->image);
	if (size < 0)
		return (int)size;
	atomic_store(&store->size, (uint64_t)size);
	/* Ceph may have told of an update meanwhile. The size that the job learns is newer. */
	pthread_mutex_lock(&store->doubting);
	store->sizing = (struct rbd_job){.run = size_follow_up, .waits = true};
	store->asks = true;
	if (atomic_load(&store->resized))
		rbd_job_add(&store->sizing, 0);
	pthread_mutex_unlock(&store->doubting);
	return 0;
}

void
rbd_size_end(struct rbd_store *store)
{
	struct backing_call *unsure;

	pthread_mutex_lock(&store->doubting);
	store->asks = false;
	unsure = steal_pointer(&store->unsure);
	pthread_mutex_unlock(&store->doubting);
	rbd_job_end(&store->sizing);
	size_settle(store, unsure, false);
}
