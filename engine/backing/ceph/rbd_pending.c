/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_pending.h"

#include "common/clock.h"
#include "common/container_of.h"
#include "common/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How often the job looks, and how long a call may take before the status tells of it, and the
 * log, in milliseconds. */
#define LOOK_MS 250
#define LONG_MS 1000
#define SLOW_MS 5000

/* The memory of abandoned calls, in bytes, from which on new calls are refused. Those that are
 * under way then may still be abandoned, too. Each counts as at least CALL_BYTES, which is for
 * librbd's part of it. */
#define ABANDONED_MAX (UINT64_C(64) << 20)
#define CALL_BYTES    4096

/* What is carried out in place of a caller's call, with cluster-timeout. */
struct copy {
	struct backing_call call;
	struct backing_call *caller; /* NULL: it has got an error. Guarded by .pending */
	uint64_t counted;            /* in bytes, of ABANDONED_MAX */
	_Alignas(max_align_t) char data[];
};

static struct copy *
copy_of(struct backing_call *call)
{
	return container_of(call, struct copy, call);
}

static int64_t
now_ms(void)
{
	return clock_ms(CLOCK_MONOTONIC_COARSE);
}

/* ---- the list: the caller holds .pending */

static void
pending_append(struct rbd_store *store, struct backing_call *call)
{
	/* A search needs no lock. */
	call->sent = call->op == CALL_SEARCH;
	call->since = now_ms();
	call->newer = NULL;
	call->older = store->newest;
	*(call->older ? &call->older->newer : &store->oldest) = call;
	store->newest = call;
}

static void
take_out(struct rbd_store *store, struct backing_call *call)
{
	*(call->older ? &call->older->newer : &store->oldest) = call->newer;
	*(call->newer ? &call->newer->older : &store->newest) = call->older;
}

/* Returns since when a call waits for the cluster. One that was not sent waits for the lock, about
 * which the cluster answers questions meanwhile. */
static int64_t
waits_since(const struct rbd_store *store, const struct backing_call *call)
{
	return !call->sent && store->answered > call->since ? store->answered : call->since;
}

static bool
is_abandoned(const struct rbd_store *store, struct backing_call *call)
{
	return store->timeout > 0 && !copy_of(call)->caller;
}

/* Returns whether a call must not begin before one that was abandoned has ended: a change might be
 * overwritten by it, and a read would only wait as long again. The parts of a failed request are
 * tried one by one, which must not take the time of each. */
static bool
is_in_danger(const struct rbd_store *store, const struct backing_call *call)
{
	struct backing_call *other = store->oldest;
	bool reads = call->op == CALL_READ;

	if (store->abandoned == 0 || (!reads && !rbd_call_changes(call)))
		return false;
	if (call->offset >= store->abandoned_end ||
	    call->offset + call->length <= store->abandoned_start)
		return false;
	for (; other; other = other->newer) {
		if (is_abandoned(store, other) && other->op != CALL_SEARCH &&
		    (reads || rbd_call_changes(other)) &&
		    call->offset < other->offset + other->length &&
		    other->offset < call->offset + call->length)
			return true;
	}
	return false;
}

/* ---- copies */

static void
copy_done(struct backing_call *call, int result)
{
	struct copy *copy = copy_of(call);
	struct backing_call *caller = copy->caller;

	/* The copy has left, so that nobody abandons it any more. */
	if (caller && (call->op == CALL_READ || call->op == CALL_SEARCH) && result > 0)
		memcpy(caller->buffer, copy->data, (size_t)result);
	if (caller)
		caller->done(caller, result);
	free(copy);
}

static struct copy *
copy_new(struct backing_call *caller)
{
	bool moves = caller->op == CALL_READ || caller->op == CALL_WRITE;
	size_t length = moves ? (size_t)caller->length : caller->room;
	struct copy *copy = malloc(sizeof(*copy) + length);

	if (!copy)
		return NULL;
	copy->call = (struct backing_call){
		.op = caller->op,
		.offset = caller->offset,
		.length = caller->length,
		.buffer = copy->data,
		.room = caller->room,
		.checkpoint = caller->checkpoint,
		.done = copy_done,
		.backing = caller->backing,
	};
	copy->caller = caller;
	copy->counted = length + CALL_BYTES;
	if (caller->op == CALL_WRITE)
		memcpy(copy->data, caller->buffer, length);
	return copy;
}

/* ---- one call */

struct backing_call *
rbd_pending_take(struct rbd_store *store, struct backing_call *call)
{
	struct copy *copy = NULL;
	bool refused;

	if (store->timeout > 0) {
		copy = copy_new(call);
		if (!copy) {
			call->done(call, -ENOMEM);
			return NULL;
		}
	}
	pthread_mutex_lock(&store->pending);
	refused = copy &&
		  (store->abandoned + copy->counted > ABANDONED_MAX || is_in_danger(store, call));
	if (!refused)
		pending_append(store, copy ? &copy->call : call);
	pthread_mutex_unlock(&store->pending);
	if (!refused)
		return copy ? &copy->call : call;
	free(copy);
	call->done(call, -ETIMEDOUT);
	return NULL;
}

void
rbd_pending_send(struct rbd_store *store, struct backing_call *call)
{
	bool abandoned;

	pthread_mutex_lock(&store->pending);
	abandoned = is_abandoned(store, call);
	/* It waits for the cluster from now on, however long it has waited for the lock. */
	if (!abandoned) {
		take_out(store, call);
		pending_append(store, call);
	}
	call->sent = true;
	pthread_mutex_unlock(&store->pending);
	if (!abandoned) {
		store->module->start(store->image, call);
		return;
	}
	rbd_pending_leave(store, call);
	call->done(call, -ETIMEDOUT);
}

void
rbd_pending_leave(struct rbd_store *store, struct backing_call *call)
{
	pthread_mutex_lock(&store->pending);
	take_out(store, call);
	if (is_abandoned(store, call))
		store->abandoned -= copy_of(call)->counted;
	if (store->abandoned == 0)
		store->abandoned_end = 0;
	pthread_mutex_unlock(&store->pending);
}

void
rbd_pending_note_answer(struct rbd_store *store)
{
	pthread_mutex_lock(&store->pending);
	store->answered = now_ms();
	pthread_mutex_unlock(&store->pending);
}

/* ---- all of them */

/* The caller holds .pending. */
static int64_t
pending_age(const struct rbd_store *store)
{
	int64_t since = INT64_MAX, waited;
	const struct backing_call *call = store->oldest;

	for (; call; call = call->sent ? NULL : call->newer) {
		if (waits_since(store, call) < since)
			since = waits_since(store, call);
	}
	waited = since == INT64_MAX ? 0 : now_ms() - since;
	return waited >= LONG_MS || store->abandoned > 0 ? waited : 0;
}

int64_t
rbd_pending_age(struct rbd_store *store)
{
	int64_t waited;

	pthread_mutex_lock(&store->pending);
	waited = pending_age(store);
	pthread_mutex_unlock(&store->pending);
	return waited;
}

bool
rbd_pending_is_late(struct rbd_store *store)
{
	bool late;

	pthread_mutex_lock(&store->pending);
	late = store->abandoned > 0;
	pthread_mutex_unlock(&store->pending);
	return late;
}

/* The caller holds .pending. */
static void
note_abandoned(struct rbd_store *store, const struct copy *copy)
{
	uint64_t start = copy->call.offset, end = start + copy->call.length;
	bool first = store->abandoned_end == 0;

	store->abandoned += copy->counted;
	if (copy->call.length == 0 || copy->call.op == CALL_SEARCH)
		return;
	if (first || start < store->abandoned_start)
		store->abandoned_start = start;
	if (first || end > store->abandoned_end)
		store->abandoned_end = end;
}

/* Abandons the calls whose time is over. Returns their callers. The caller holds .pending. */
static struct backing_call *
pending_abandon(struct rbd_store *store)
{
	int64_t limit = now_ms() - (int64_t)store->timeout * 1000;
	struct backing_call *callers = NULL;

	if (store->timeout == 0)
		return NULL;
	for (struct backing_call *call = store->oldest; call && call->since <= limit;
	     call = call->newer) {
		struct copy *copy = copy_of(call);

		if (!copy->caller || waits_since(store, call) > limit)
			continue;
		copy->caller->next = callers;
		callers = copy->caller;
		copy->caller = NULL;
		note_abandoned(store, copy);
	}
	return callers;
}

/* Tells the log that calls wait, or fail, and when the cluster answers again. */
static void
pending_tell(struct rbd_store *store, int64_t waited, bool fails)
{
	if (fails && !store->told_failure)
		log_error("%s: the cluster has not answered for %u seconds (cluster-timeout): "
			  "requests fail until it does; `ceph status` shows its state, also a full "
			  "pool",
			  store->path, store->timeout);
	else if (waited >= SLOW_MS && !fails && store->silent_since == 0)
		log_warning("%s: the cluster has not answered for %lld seconds: requests wait; "
			    "`ceph status` shows its state, also a full pool",
			    store->path, (long long)waited / 1000);
	store->told_failure = store->told_failure || fails;
	if ((waited >= SLOW_MS || fails) && store->silent_since == 0)
		store->silent_since = now_ms() - waited;
	if (waited > 0 || store->silent_since == 0)
		return;
	log_info("%s: the cluster answers again, after %lld seconds", store->path,
		 (long long)(now_ms() - store->silent_since) / 1000);
	store->silent_since = 0;
	store->told_failure = false;
}

static void
pending_look(struct rbd_job *job)
{
	struct rbd_store *store = container_of(job, struct rbd_store, looking);
	struct backing_call *callers;
	int64_t waited;

	pthread_mutex_lock(&store->pending);
	callers = pending_abandon(store);
	waited = pending_age(store);
	pthread_mutex_unlock(&store->pending);
	pending_tell(store, waited, callers != NULL);
	while (callers) {
		struct backing_call *next = callers->next;

		callers->done(callers, -ETIMEDOUT);
		callers = next;
	}
	rbd_job_add(job, LOOK_MS);
}

void
rbd_pending_begin(struct rbd_store *store)
{
	store->looking.run = pending_look;
	rbd_job_add(&store->looking, LOOK_MS);
}

void
rbd_pending_end(struct rbd_store *store)
{
	rbd_job_end(&store->looking);
}

/* ---- those who wait */

static void
waiter_done(struct backing_call *call, int result)
{
	struct rbd_waiter *waiter = call->owner;

	pthread_mutex_lock(&waiter->mutex);
	call->result = result;
	waiter->done = true;
	pthread_cond_signal(&waiter->over);
	pthread_mutex_unlock(&waiter->mutex);
}

void
rbd_waiter_init(struct rbd_waiter *waiter, const struct backing_call *call)
{
	*waiter = (struct rbd_waiter){
		.call = *call,
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.over = PTHREAD_COND_INITIALIZER,
	};
	waiter->call.done = waiter_done;
	waiter->call.owner = waiter;
}

int
rbd_waiter_await(struct rbd_waiter *waiter)
{
	pthread_mutex_lock(&waiter->mutex);
	while (!waiter->done)
		pthread_cond_wait(&waiter->over, &waiter->mutex);
	pthread_mutex_unlock(&waiter->mutex);
	return waiter->call.result;
}
