/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A Ceph cluster in this process, as the module of engine/backing/ceph/rbd_module.h, and calls to
 * an image there.
 */
#ifndef TESTS_UNIT_ENGINE_BACKING_CEPH_MODULE_FIXTURE_H
#define TESTS_UNIT_ENGINE_BACKING_CEPH_MODULE_FIXTURE_H

#include "engine/backing/backing.h"
#include "engine/backing/ceph/rbd_store.h"

#include <errno.h>
#include <pthread.h>

struct fake_ceph {
	struct rbd_owner owner;
	char broken[128];     /* the client that was fenced */
	bool acquired;        /* the lock was taken */
	bool silent;          /* no client answers */
	int answers;          /* questions whether one does */
	const char *thief;    /* a client that takes the lock as soon as it is free */
	int early;            /* changes that came before that */
	int flushes;          /* that came */
	int result;           /* of calls that move nothing, and of all if it is an error */
	int open;             /* images */
	int started;          /* calls that came */
	_Atomic int searches; /* for extents, that came */
	uint64_t extent;      /* bytes of each; 0: there is only one */
	bool away;            /* calls do not end */
	struct backing_call *held, **held_tail; /* those that came meanwhile */
	_Atomic int questions;                  /* for the owner of the lock */
	_Atomic int64_t size;                   /* in bytes, or -errno */
	_Atomic uint64_t features;              /* of the image */
	_Atomic int released;                   /* the lock was given back */
	bool stuck;                             /* it is not free after that */
	int refusals;                           /* how often a free lock is refused */
	int renewals;                           /* answers that name no owner */
	_Atomic int snapped, unsnapped;         /* snapshots that were made, and removed */
	char snapshot[128];                     /* the name of the last one that was made */
	struct rbd_snapshot_facts snapshots[4]; /* the first .count ones are told of */
	size_t count;
	int listing;     /* what telling of them results in: 0, or -errno */
	char since[256]; /* since when changes were asked for */
	void (*updated)(void *data);
	void *data;
};

extern struct fake_ceph ceph;
/* While it is held, no snapshot is made or removed. */
extern pthread_mutex_t ceph_snapping;
/* While it is held, nobody learns the size. */
extern pthread_mutex_t ceph_sizing;
/* While it is held, nobody learns of extents. */
extern pthread_mutex_t ceph_searching;
/* While it is held, nobody learns who owns the lock. */
extern pthread_mutex_t ceph_locking;
extern const struct rbd_module ceph_module;

/* Has the cluster anew. owner: of the image's lock, or NULL. */
void
ceph_begin(const struct rbd_owner *owner);

/* The members of a struct rbd_place that are the same for all. */
#define CEPH_NAME  "rbd:pool/disk"
#define CEPH_PLACE .name = CEPH_NAME, .pool = "pool"

/* Opens an image. The caller puts it back. */
struct rbd_store *
ceph_get_place(const struct rbd_place *place);
struct rbd_store *
ceph_get(const char *image, bool read_only);

/* Its backing, for the functions of the table. */
#define ceph_backing(store_) (&(const struct backing){.state = (store_)})

/* Ends the calls that came while the cluster was away, and those that come. */
void
ceph_come_back(struct rbd_store *store);

/* Searches for extents from the start on. */
int
ceph_search(struct rbd_store *store, uint64_t length, bool one, extent_visit visit, void *data);

/* A call, and its end. */
struct waiter {
	struct backing_call call;
	pthread_mutex_t mutex; /* guards the members below */
	pthread_cond_t over;
	bool done;
	int result;
};

void
ceph_start(struct rbd_store *store, struct waiter *waiter, enum call_op op, uint64_t offset,
	   uint64_t length);
/* The same with data. */
void
ceph_start_data(struct rbd_store *store, struct waiter *waiter, enum call_op op, uint64_t offset,
		void *data, size_t length);
/* Returns its result. */
int
ceph_await(struct waiter *waiter);
bool
ceph_is_done(struct waiter *waiter);

/* Makes a call, the second one without a range, and returns its result. */
int
ceph_call_at(struct rbd_store *store, enum call_op op, uint64_t offset, uint64_t length);
int
ceph_call(struct rbd_store *store, enum call_op op);

#endif
