/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of an open image in Ceph, for the files rbd*.c.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_STATE_H
#define ENGINE_BACKING_CEPH_RBD_STATE_H

#include "engine/backing/backing.h"
#include "engine/backing/ceph/rbd_module.h"
#include "engine/backing/ceph/rbd_name.h"
#include "engine/backing/ceph/rbd_worker.h"

#include <pthread.h>
#include <stdatomic.h>

/* The client of Ceph whose place a server takes (ceph-fence). */
struct rbd_predecessor {
	char address[128]; /* "": there is none */
	bool may_be_gone;  /* it has given the lock back, so nobody needs to have it */
};

/* An attempt to take the lock. */
struct rbd_attempt {
	struct rbd_store *store;
	bool at_start; /* its caller waits, and no client yet */
	struct rbd_predecessor predecessor;
	struct rbd_owner owner; /* who had the lock, at the last look */
	bool fenced;            /* then */
	unsigned int tries;     /* that found another owner, so far */
	/* Of one at the start. */
	bool over;
	int result;
	char *error;
};

struct rbd_store {
	/* Constant after rbd_store_get(). */
	const struct rbd_module *module;
	struct rbd_image *image;
	struct rbd_facts facts;
	char *path; /* for messages */
	struct rbd_name name;
	unsigned int timeout; /* seconds after which a call fails; 0: never */

	_Atomic bool exclusive; /* changes need the exclusive lock */
	_Atomic bool force;     /* which may be taken away from a living owner */
	_Atomic bool held;      /* this process has the lock, as far as it knows */
	_Atomic bool changed;   /* a change was started without the lock */
	_Atomic bool fenced;    /* the cluster refuses this process, or the lock is lost: nothing
				   may succeed any more */

	/* Taking the lock: see rbd_lock.c. */
	pthread_mutex_t mutex;                        /* guards the members below */
	pthread_cond_t taken;                         /* for those that wait at the start */
	struct backing_call *waiting, **waiting_tail; /* changes that wait for the lock */
	bool taking;                                  /* it is taken, or given back */
	bool stop;
	struct rbd_job locking;        /* takes it */
	struct rbd_attempt *attempt;   /* how; NULL: it does not */
	struct rbd_attempt by_changes; /* the one for .waiting */
	unsigned int borrowers;        /* that librbd may have taken the lock for, by itself */
	char owner[128]; /* of the lock, as Ceph names the client, when it was asked last; "": not
			    known, or free then */

	/* What others change meanwhile: see rbd_size.c. */
	_Atomic uint64_t features; /* as far as they are known */
	_Atomic uint64_t size;     /* in bytes, as far as it is known; writable images only */
	_Atomic bool resized;      /* both may be others by now, the lock lost; .sizing asks */
	struct rbd_job sizing;
	pthread_mutex_t doubting;    /* guards the members below; held only for moments */
	unsigned int doubts;         /* reasons to ask, so far */
	struct backing_call *unsure; /* changes that succeeded meanwhile: perhaps only in part */
	bool untold;                 /* some followers are behind */
	bool asks;                   /* .sizing may run */
	bool unlearned;              /* .sizing's: it has to learn the checkpoints */
	bool shrunk;                 /* .sizing's: became smaller, and the followers don't know */
	pthread_mutex_t following;   /* guards .followers; held while they are called */
	struct size_follower *followers;

	/* The calls that have not ended: see rbd_pending.c. */
	pthread_mutex_t pending; /* guards the members below; held only for moments */
	struct backing_call *oldest, *newest;
	uint64_t abandoned; /* bytes of calls that go on after their time; 0: there are none */
	uint64_t abandoned_start,
		abandoned_end; /* the range in which their bytes are; end 0: none */
	int64_t answered;      /* when the cluster answered questions about the lock; clock_ms() */
	/* .looking's. */
	int64_t silent_since; /* as the log was told; clock_ms(), 0: it was not, or it is over */
	bool told_failure;
	struct rbd_job looking;

	/* Searches, snapshots and removals: they go on when nobody waits for them any more. */
	bool joined;                         /* rbd_worker_join() */
	unsigned int jobs;                   /* guarded by rbd_worker.c */
	_Atomic unsigned int late_removals;  /* of checkpoints, that took too long */
	_Atomic unsigned int late_snapshots; /* that nobody waits for any more */

	/* Its checkpoints: see rbd_checkpoint.c. */
	pthread_mutex_t learning;           /* held while they are learned */
	pthread_mutex_t listing;            /* guards the members below; held only for moments */
	struct rbd_checkpoint *checkpoints; /* oldest first */
	size_t checkpoint_count;
	_Atomic uint64_t edition; /* another one with each change of the list */

	/* Of the image that this one is a snapshot of, to be removed at the end; NULL: not ours. */
	struct rbd_store *origin;

	/* Guarded by the mutex of rbd_store.c. */
	unsigned int users;
	struct rbd_store *next;
};

static inline struct rbd_store *
rbd_store_of(const struct backing *backing)
{
	return backing->state;
}

static inline bool
rbd_has(const struct rbd_store *store, uint64_t feature)
{
	return atomic_load(&store->features) & feature;
}

static inline bool
rbd_call_changes(const struct backing_call *call)
{
	return call->op != CALL_READ && call->op != CALL_FLUSH && call->op != CALL_SEARCH;
}

#endif
