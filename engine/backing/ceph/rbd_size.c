/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_size.h"

#include "engine/backing/ceph/rbd_checkpoint.h"
#include "engine/backing/ceph/rbd_loss.h"
#include "engine/backing/ceph/rbd_trust.h"

#include "common/log.h"
#include "common/thread.h"

#include <errno.h>
#include <string.h>

/* How soon to ask for the size again after a failure, and to tell a follower again that could not
 * follow, in milliseconds. */
#define ASK_AGAIN_MS  1000
#define TELL_AGAIN_MS 100

/* Has the thread ask. The caller holds .sizing. */
static void
doubt(struct rbd_store *store)
{
	store->doubts++;
	atomic_store(&store->resized, true);
	pthread_cond_signal(&store->news);
}

void
rbd_size_doubt(struct rbd_store *store)
{
	pthread_mutex_lock(&store->sizing);
	doubt(store);
	pthread_mutex_unlock(&store->sizing);
}

/* On a thread of librbd's. */
static void
updated(void *data)
{
	rbd_size_doubt(data);
}

/* Returns how much of a change fits into the size as it is known, in bytes. */
static uint64_t
fitting(const struct rbd_store *store, const struct backing_call *call)
{
	uint64_t size = atomic_load(&store->size);
	uint64_t left = call->offset < size ? size - call->offset : 0;

	return call->length < left ? call->length : left;
}

/* What seems to be beyond the end is asked about, too: another thread may have seen the image
 * grow before Ceph told of it. */
static bool
is_sure(const struct rbd_store *store, const struct backing_call *call)
{
	return !atomic_load_explicit(&store->resized, memory_order_acquire) &&
	       (call->op == CALL_DISCARD || fitting(store, call) == call->length);
}

bool
rbd_size_await(struct rbd_store *store, struct backing_call *call, int result)
{
	bool over;

	if (is_sure(store, call))
		return false;
	pthread_mutex_lock(&store->sizing);
	/* Then it was abandoned, and nobody wants its result. */
	over = store->over;
	if (!over) {
		call->result = result;
		call->next = store->unsure;
		store->unsure = call;
		doubt(store);
	}
	pthread_mutex_unlock(&store->sizing);
	return !over;
}

/* Returns the result of a change that librbd calls a success. One that was under way when the size
 * changed counts as carried out before that. */
static int
judge(const struct rbd_store *store, const struct backing_call *call)
{
	uint64_t length = fitting(store, call);

	if (call->op == CALL_DISCARD || length == call->length)
		return call->result;
	return call->op == CALL_WRITE ? (int)length : -EIO;
}

/* Ends the changes that had to wait. Without the size, nobody knows how much of them was carried
 * out; without an answer about the lock, whether another client's came after them. */
static void
settle(struct rbd_store *store, struct backing_call *call, bool known)
{
	while (call) {
		struct backing_call *next = call->next;

		rbd_loss_finish(store, call, known ? judge(store, call) : -EIO);
		call = next;
	}
}

/* ---- the followers */

void
rbd_size_follow(struct rbd_store *store, struct size_follower *follower)
{
	pthread_mutex_lock(&store->following);
	follower->behind = true;
	follower->next = store->followers;
	store->followers = follower;
	pthread_mutex_unlock(&store->following);
	/* The size may have changed since the caller asked for it. */
	pthread_mutex_lock(&store->sizing);
	store->untold = true;
	pthread_cond_signal(&store->news);
	pthread_mutex_unlock(&store->sizing);
}

void
rbd_size_unfollow(struct rbd_store *store, struct size_follower *follower)
{
	struct size_follower **at = &store->followers;

	pthread_mutex_lock(&store->following);
	while (*at && *at != follower)
		at = &(*at)->next;
	if (*at)
		*at = follower->next;
	pthread_mutex_unlock(&store->following);
}

static void
all_are_behind(struct rbd_store *store)
{
	pthread_mutex_lock(&store->following);
	for (struct size_follower *at = store->followers; at; at = at->next) {
		at->behind = true;
		at->shrunk = at->shrunk || store->shrunk;
	}
	pthread_mutex_unlock(&store->following);
	store->shrunk = false;
}

/* Tells those that are behind. Returns whether some still are. */
static bool
tell(struct rbd_store *store)
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

/* ---- the thread */

static int
ask(struct rbd_store *store)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 60);
	int64_t size = store->module->size(store->image);
	int r = size < 0 ? (int)size : rbd_trust_confirm(store);

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

/* Sleeps until there is news. The caller holds .sizing. */
static void
rest(struct rbd_store *store, unsigned int ms)
{
	if (!store->over)
		thread_wait(&store->news, &store->sizing, ms);
}

/* Takes the changes that may end now. The caller holds .sizing. */
static struct backing_call *
take_unsure(struct rbd_store *store)
{
	struct backing_call *unsure = store->unsure;

	store->unsure = NULL;
	return unsure;
}

/* The caller holds .sizing, which is released meanwhile. */
static void
learn(struct rbd_store *store)
{
	unsigned int doubts = store->doubts;
	struct backing_call *unsure;
	int r;

	pthread_mutex_unlock(&store->sizing);
	r = ask(store);
	pthread_mutex_lock(&store->sizing);
	/* With a doubt meanwhile, the answer may be an old one. */
	if (r == 0 && store->doubts != doubts)
		return;
	if (r == 0 || r == -ESHUTDOWN)
		atomic_store(&store->resized, false);
	unsure = take_unsure(store);
	store->untold = r == 0;
	pthread_mutex_unlock(&store->sizing);
	settle(store, unsure, r == 0);
	if (r == 0)
		all_are_behind(store);
	pthread_mutex_lock(&store->sizing);
	if (atomic_load(&store->resized) && r < 0)
		rest(store, ASK_AGAIN_MS);
}

/* As learn(). */
static void
tell_the_others(struct rbd_store *store)
{
	bool behind;

	store->untold = false;
	pthread_mutex_unlock(&store->sizing);
	behind = tell(store);
	pthread_mutex_lock(&store->sizing);
	store->untold = store->untold || behind;
	if (behind && !atomic_load(&store->resized))
		rest(store, TELL_AGAIN_MS);
}

/* As learn(), of the checkpoints. */
static void
learn_checkpoints(struct rbd_store *store)
{
	int r;

	pthread_mutex_unlock(&store->sizing);
	r = rbd_checkpoints_learn(store);
	pthread_mutex_lock(&store->sizing);
	store->unlearned = r < 0 && r != -ESHUTDOWN;
	if (store->unlearned && !atomic_load(&store->resized))
		rest(store, ASK_AGAIN_MS);
}

static void *
size_thread(void *data)
{
	struct rbd_store *store = data;
	struct backing_call *unsure;

	pthread_mutex_lock(&store->sizing);
	while (!store->over) {
		if (atomic_load(&store->resized))
			learn(store);
		else if (store->unlearned)
			learn_checkpoints(store);
		else if (store->untold)
			tell_the_others(store);
		else
			pthread_cond_wait(&store->news, &store->sizing);
	}
	unsure = take_unsure(store);
	pthread_mutex_unlock(&store->sizing);
	settle(store, unsure, false);
	return NULL;
}

int
rbd_size_begin(struct rbd_store *store)
{
	int64_t size;
	int r = 0;

	if (!store->facts.writable)
		return 0;
	r = store->module->watch(store->image, updated, store);
	if (r < 0)
		return r;
	size = store->module->size(store->image);
	if (size < 0)
		return (int)size;
	atomic_store(&store->size, (uint64_t)size);
	r = thread_start(&store->sizer, size_thread, store);
	store->sized = r == 0;
	return r;
}

void
rbd_size_end(struct rbd_store *store)
{
	if (!store->sized)
		return;
	pthread_mutex_lock(&store->sizing);
	store->over = true;
	pthread_cond_signal(&store->news);
	pthread_mutex_unlock(&store->sizing);
	pthread_join(store->sizer, NULL);
	store->sized = false;
}
