/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_lock.h"

#include "engine/backing/ceph/rbd_loss.h"
#include "engine/backing/ceph/rbd_pending.h"
#include "engine/backing/ceph/rbd_size.h"

#include "common/cleanup.h"
#include "common/container_of.h"
#include "common/error.h"
#include "common/event.h"
#include "common/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long to wait for an owner that may be dead, in milliseconds, and how often to look. Ceph
 * forgets a client that is gone after 30 seconds (osd_client_watch_timeout). */
#define OWNER_LINGER_MS 40000
#define OWNER_STEP_MS   250
#define OWNER_TRIES     (OWNER_LINGER_MS / OWNER_STEP_MS)

/* How often to ask for one's own name, as the owner. */
#define NAME_TRIES 8

/* How often to try to take the lock of an owner that was fenced. */
#define ACQUIRE_TRIES 3

/* Ends a value of ceph-fence if the client has given the lock back. */
#define MAY_BE_GONE "+free"

/* ---- the predecessor */

/* Returns whether digits follow `mark` at *at, and moves *at past them. */
static bool
predecessor_skip_number(const char **at, char mark)
{
	size_t digits;

	if (**at != mark)
		return false;
	digits = strspn(*at + 1, "0123456789");
	*at += 1 + digits;
	return digits > 0;
}

/* Of 192.0.2.7:0/1234567, [2001:db8::7]:0/1234567, or v1:192.0.2.7:0/1234567: the cluster knows
 * whether there is such a client; what is something else altogether is a mistake. */
static bool
predecessor_is_address(const char *text, size_t length)
{
	const char *slash = memchr(text, '/', length), *at = slash;

	if (!slash || slash == text)
		return false;
	while (at > text && isdigit((unsigned char)at[-1]))
		at--;
	at--;
	return at > text && predecessor_skip_number(&at, ':') && at == slash &&
	       predecessor_skip_number(&at, '/') && at == text + length &&
	       strspn(text, "0123456789abcdefABCDEF.:[]v") >= (size_t)(slash - text);
}

int
rbd_predecessor_parse(const char *path, const char *text, struct rbd_predecessor *predecessor,
		      char **error)
{
	const size_t mark = strlen(MAY_BE_GONE);
	size_t length = text ? strlen(text) : 0;

	*predecessor = (struct rbd_predecessor){.may_be_gone = false};
	if (!text)
		return 0;
	if (length > mark && strcmp(text + length - mark, MAY_BE_GONE) == 0) {
		predecessor->may_be_gone = true;
		length -= mark;
	}
	if (length >= sizeof(predecessor->address) || !predecessor_is_address(text, length))
		return error_set(error, -EINVAL,
				 "%s: ceph-fence=%s is no address of a client of Ceph, as in "
				 "192.0.2.7:0/1234567; the status has it as lock_address, and so "
				 "has `rbd lock ls`",
				 path, text);
	memcpy(predecessor->address, text, length);
	return 0;
}

/* Returns whether the owner is the predecessor itself, to be fenced dead or alive. */
static bool
predecessor_owns(const struct rbd_predecessor *predecessor, const struct rbd_owner *owner)
{
	return predecessor->address[0] && strcmp(predecessor->address, owner->address) == 0;
}

/* Returns whether the predecessor still has its place: the lock's owner is the predecessor, or
 * nobody if that has given it back. If not, somebody else has had the image since. Without a
 * predecessor, any owner is right. */
static bool
predecessor_fits(const struct rbd_predecessor *predecessor, const struct rbd_owner *owner)
{
	return !predecessor->address[0] || owner->own ||
	       (!owner->address[0] && predecessor->may_be_gone) ||
	       predecessor_owns(predecessor, owner);
}

/* ---- taking the lock */

static bool
is_given_up(struct rbd_store *store)
{
	bool stop;

	pthread_mutex_lock(&store->mutex);
	stop = store->stop;
	pthread_mutex_unlock(&store->mutex);
	return stop;
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

/* Takes the lock away from an owner that is dead, the predecessor, or overridden by force=on. */
static int
rbd_fence(struct rbd_attempt *attempt)
{
	struct rbd_store *store = attempt->store;
	const struct rbd_owner *owner = &attempt->owner;
	struct rbd_owner next;
	int r = store->module->lock_break(store->image, owner->address);

	attempt->fenced = r == 0;
	if (r < 0 || !attempt->predecessor.address[0])
		return r;
	/* Another client may have been faster. It might give the lock up when asked, and would have
	 * had the image. */
	r = ask_for_owner(store, &next);
	return r == 0 && next.address[0] && !next.own ? -EBUSY : r;
}

static void
tell_of_fence(const struct rbd_attempt *attempt)
{
	const struct rbd_owner *owner = &attempt->owner;
	const char *why = owner->watches ? " (force=on)" : " and is gone";

	if (predecessor_owns(&attempt->predecessor, owner))
		why = " before (ceph-fence)";
	log_warning("%s: fenced the client %s, which had the image's lock%s", attempt->store->path,
		    owner->address, why);
}

/* Only a fence of our own makes the lock free meanwhile, so it is worth another try, as long as it
 * is free. */
static int
rbd_acquire(const struct rbd_attempt *attempt)
{
	const struct rbd_store *store = attempt->store;
	int r = store->module->lock_acquire(store->image);

	for (int tries = 1;
	     attempt->fenced && tries < ACQUIRE_TRIES && (r == -EAGAIN || r == -EBUSY); tries++) {
		struct rbd_owner owner;

		if (store->module->lock_owner(store->image, &owner) < 0 || owner.address[0])
			break;
		r = store->module->lock_acquire(store->image);
	}
	return r;
}

/* A guard must know of each server that had the lock, also of one that is killed at once. While
 * librbd renews its watch, it does not count as the owner: it is asked again then. */
static void
tell_of_taking(const struct rbd_attempt *attempt)
{
	struct rbd_owner owner;
	int r = ask_for_owner(attempt->store, &owner);

	for (int tries = 1; (r < 0 || !owner.own) && tries < NAME_TRIES; tries++) {
		/* Changes that wait for the lock do not wait for the cluster. */
		if (r == 0)
			rbd_pending_note_answer(attempt->store);
		usleep(OWNER_STEP_MS * 1000);
		r = ask_for_owner(attempt->store, &owner);
	}
	if (attempt->predecessor.address[0])
		log_info("%s: took the place of the client %s; this server is the client %s",
			 attempt->store->path, attempt->predecessor.address,
			 r == 0 ? owner.address : "");
	event_raise(&(struct event){.kind = EVENT_LOCK_TAKEN,
				    .subject = attempt->store->path,
				    .client = r == 0 && owner.own ? owner.address : NULL});
}

/* Tries once. Returns 0; -EBUSY if another client has the lock; -ESTALE if another one has had it
 * since the predecessor; or another -errno. A lock that librbd has taken by itself (for
 * lock=shared) must be acquired like any other: until then, librbd gives it to whoever asks. */
static int
try_to_take(struct rbd_attempt *attempt)
{
	struct rbd_store *store = attempt->store;
	struct rbd_owner *owner = &attempt->owner;
	int r = ask_for_owner(store, owner);
	bool other = r == 0 && owner->address[0] && !owner->own;

	attempt->fenced = false;
	if (r < 0)
		return r;
	if (!predecessor_fits(&attempt->predecessor, owner))
		return -ESTALE;
	if (other && owner->watches && !predecessor_owns(&attempt->predecessor, owner) &&
	    !atomic_load(&store->force))
		return -EBUSY;
	if (other)
		r = rbd_fence(attempt);
	/* Another client may have been faster: the next try finds its name. */
	if (r == 0 || (!attempt->predecessor.address[0] && (r == -ENOENT || r == -EBUSY)))
		r = rbd_acquire(attempt);
	if (attempt->fenced)
		tell_of_fence(attempt);
	if (r == 0)
		tell_of_taking(attempt);
	return r == -EROFS || r == -EAGAIN || r == -ENOENT ? -EBUSY : r;
}

static void
tell_of_wait(const struct rbd_attempt *attempt)
{
	const char *address = attempt->owner.address;

	if (attempt->at_start)
		log_warning("%s: the client %s has the image's lock, and does not answer: the "
			    "start waits for up to 40 seconds, until the cluster knows that it is "
			    "gone; with force=on it would be fenced",
			    attempt->store->path, address);
	else
		log_warning("%s: the client %s has the image's lock: changes wait until it gives "
			    "the lock up or is gone; with force=on it would be fenced",
			    attempt->store->path, address);
}

static int
rbd_explain_lock(const struct rbd_attempt *attempt, int r, char **error)
{
	const char *path = attempt->store->path, *address = attempt->owner.address;

	if (r == -EBUSY && is_given_up(attempt->store))
		return error_set(error, -ESHUTDOWN, "%s: not opened: the server is shutting down",
				 path);
	if (r == -ESTALE) {
		error_set(
			error, r,
			"%s: another client has had the image since %s, so this server cannot take the place of that client: the image may have changed; %s%s",
			path, attempt->predecessor.address,
			address[0] ? "the lock is with " : "the lock is free", address);
		event_raise(&(struct event){.kind = EVENT_FENCED, .subject = path, .text = *error});
		return r;
	}
	if (r == -EBUSY && attempt->at_start)
		return error_set(
			error, r,
			"%s: the client %s has the image's lock; end that client, fence it with force=on, use read-only=on, or have both use one server (nbdloop-cluster(7))",
			path, address);
	if (r == -EBUSY)
		return error_set(
			error, r,
			"%s: not written to, because the client %s has the image's lock; end that "
			"client first, or use force=on, or lock=shared if both may write",
			path, address);
	return error_set(error, r, "%s: its lock can't be taken: %s", path, strerror(-r));
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

/* The caller holds the mutex. */
static void
attempt_begin(struct rbd_attempt *attempt)
{
	attempt->store->taking = true;
	attempt->store->attempt = attempt;
	rbd_job_add(&attempt->store->locking, 0);
}

/* As attempt_begin(). */
static void
attempt_begin_for_changes(struct rbd_store *store)
{
	store->by_changes = (struct rbd_attempt){.store = store};
	attempt_begin(&store->by_changes);
}

/* One at the start is its caller's again after this. */
static void
attempt_end(struct rbd_attempt *attempt, int r)
{
	struct rbd_store *store = attempt->store;
	struct backing_call *calls = NULL;
	const bool at_start = attempt->at_start;
	char *error = NULL;

	r = r < 0 ? rbd_explain_lock(attempt, r, &error) : 0;
	pthread_mutex_lock(&store->mutex);
	atomic_store(&store->held, r == 0);
	store->taking = false;
	store->attempt = NULL;
	/* What was told before, nobody has asked about. */
	if (r == 0)
		rbd_size_doubt(store);
	/* Changes of another export of the image wait for longer than a start. */
	if (r == 0 || !at_start) {
		calls = steal_pointer(&store->waiting);
		store->waiting_tail = &store->waiting;
	} else if (store->waiting) {
		attempt_begin_for_changes(store);
	}
	if (at_start) {
		attempt->result = r;
		attempt->error = error;
		attempt->over = true;
	}
	pthread_cond_broadcast(&store->taken);
	pthread_mutex_unlock(&store->mutex);
	end_wait(store, calls, r);
	if (at_start)
		return;
	if (r < 0 && r != -ESHUTDOWN)
		log_error("%s", error ? error : strerror(-r));
	free(error);
}

/* Tries once, and is to run again if another client has the lock that may give it up. */
static void
attempt_run(struct rbd_job *job)
{
	struct rbd_store *store = container_of(job, struct rbd_store, locking);
	struct rbd_attempt *attempt;
	bool wait;
	int r;

	pthread_mutex_lock(&store->mutex);
	attempt = store->attempt;
	pthread_mutex_unlock(&store->mutex);
	/* It has just ended as rbd_lock_give_up() came. */
	if (!attempt)
		return;
	r = attempt->tries > 0 && is_given_up(store) ? -EBUSY : try_to_take(attempt);
	rbd_pending_note_answer(store);
	wait = r == -EBUSY && attempt->tries < OWNER_TRIES && !is_given_up(store);
	/* At the start, nobody waits for an owner that is alive. */
	if (wait && attempt->tries == 0 && attempt->at_start && attempt->owner.watches)
		wait = store->module->answers(store->image, attempt->owner.address) != 1;
	if (wait && attempt->tries == 0 && attempt->owner.address[0])
		tell_of_wait(attempt);
	attempt->tries++;
	if (wait)
		rbd_job_add(job, OWNER_STEP_MS);
	else
		attempt_end(attempt, r);
}

int
rbd_lock_take(struct rbd_store *store, const struct rbd_predecessor *predecessor, char **error)
{
	struct rbd_attempt attempt = {
		.store = store, .at_start = true, .predecessor = *predecessor};

	pthread_mutex_lock(&store->mutex);
	/* By another export of the image. */
	while (store->taking)
		pthread_cond_wait(&store->taken, &store->mutex);
	if (!atomic_load(&store->held)) {
		attempt_begin(&attempt);
		while (!attempt.over)
			pthread_cond_wait(&store->taken, &store->mutex);
	}
	pthread_mutex_unlock(&store->mutex);
	if (attempt.result < 0)
		*error = attempt.error;
	return attempt.result;
}

bool
rbd_lock_await(struct rbd_store *store, struct backing_call *call)
{
	bool held;

	pthread_mutex_lock(&store->mutex);
	held = atomic_load(&store->held);
	if (!held) {
		if (!store->taking)
			attempt_begin_for_changes(store);
		call->next = NULL;
		*store->waiting_tail = call;
		store->waiting_tail = &call->next;
	}
	pthread_mutex_unlock(&store->mutex);
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
rbd_release_lock(struct rbd_store *store)
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
	bool give;

	pthread_mutex_lock(&store->mutex);
	give = --store->borrowers == 0 && atomic_load(&store->exclusive) &&
	       !atomic_load(&store->held) && !store->taking && !atomic_load(&store->fenced);
	store->taking = store->taking || give;
	pthread_mutex_unlock(&store->mutex);
	if (!give)
		return;
	rbd_release_lock(store);
	pthread_mutex_lock(&store->mutex);
	store->taking = false;
	if (store->waiting)
		attempt_begin_for_changes(store);
	pthread_cond_broadcast(&store->taken);
	pthread_mutex_unlock(&store->mutex);
}

void
rbd_lock_give_up(struct rbd_store *store)
{
	pthread_mutex_lock(&store->mutex);
	store->stop = true;
	if (store->attempt)
		rbd_job_add(&store->locking, 0);
	pthread_mutex_unlock(&store->mutex);
}

/* Explicitly, to tell that another client may have the image from now on: but only if nobody has it
 * yet, because librbd also returns 0 if it could not unlock. */
void
rbd_lock_release(struct rbd_store *store)
{
	struct rbd_owner owner = {0};
	int r;

	if (!atomic_load(&store->held) || atomic_load(&store->fenced))
		return;
	r = store->module->lock_release(store->image);
	if (r == 0)
		r = ask_for_owner(store, &owner);
	if (r == 0 && !owner.address[0]) {
		log_info("%s: gave the image's lock back", store->path);
		event_raise(&(struct event){.kind = EVENT_LOCK_RELEASED, .subject = store->path});
	} else if (r < 0) {
		log_warning("%s: its lock can't be given back: %s", store->path, strerror(-r));
	}
}

void
rbd_lock_begin(struct rbd_store *store)
{
	store->waiting_tail = &store->waiting;
	store->locking = (struct rbd_job){.run = attempt_run, .waits = true};
}

void
rbd_lock_stop(struct rbd_store *store)
{
	rbd_lock_give_up(store);
	pthread_mutex_lock(&store->mutex);
	while (store->taking)
		pthread_cond_wait(&store->taken, &store->mutex);
	pthread_mutex_unlock(&store->mutex);
	rbd_job_end(&store->locking);
}
