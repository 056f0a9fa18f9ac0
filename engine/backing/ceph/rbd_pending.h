/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls to an image in Ceph that have not ended: since when they wait, and cluster-timeout.
 *
 * Nobody can take a call back that librbd has, and librados' own timeout does not: an OSD may still
 * carry out what it has received. So a call whose time is over goes on with a copy of its data,
 * while its caller gets an error. It is abandoned, and until it ends, changes of the same bytes
 * fail: it never overwrites what was acknowledged later. So do reads, which would wait in vain, and
 * after an abandoned search for extents (rbd_search.h) other searches, of any bytes.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_PENDING_H
#define ENGINE_BACKING_CEPH_RBD_PENDING_H

#include "engine/backing/ceph/rbd_state.h"

/* A call whose caller waits for its end. */
struct rbd_waiter {
	struct backing_call call; /* the caller's until it is started */
	pthread_mutex_t mutex;    /* guards the members below, and the call's result */
	pthread_cond_t over;
	bool done;
};

void
rbd_waiter_init(struct rbd_waiter *waiter, const struct backing_call *call);
/* Waits, and returns the call's result. */
int
rbd_waiter_await(struct rbd_waiter *waiter);

/* Starts and ends the looks at the store's calls. None may be pending at the end, but for abandoned
 * ones. */
void
rbd_pending_begin(struct rbd_store *store);
void
rbd_pending_end(struct rbd_store *store);

/* Takes a call. Returns the one to carry out in its place, which ends it; or NULL: it was refused,
 * and has ended. Never waits. */
struct backing_call *
rbd_pending_take(struct rbd_store *store, struct backing_call *call);

/* Hands a call that was taken to librbd. Never waits. */
void
rbd_pending_send(struct rbd_store *store, struct backing_call *call);

/* To be called before done() of a call that was taken. Any thread. */
void
rbd_pending_leave(struct rbd_store *store, struct backing_call *call);

/* Notes that the cluster has answered, though calls that were not sent still wait for the lock. */
void
rbd_pending_note_answer(struct rbd_store *store);

/* Returns for how many milliseconds the oldest call has waited for the cluster; 0: not long enough
 * to be told of. Never waits. */
int64_t
rbd_pending_age(struct rbd_store *store);

/* Returns whether a call's time is over and the cluster has not answered it yet. Never waits. */
bool
rbd_pending_is_late(struct rbd_store *store);

#endif
