/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of an open image in Ceph, for the files rbd*.c.
 */
#ifndef ENGINE_BACKING_RBD_STATE_H
#define ENGINE_BACKING_RBD_STATE_H

#include "engine/backing/rbd_module.h"
#include "engine/backing/rbd_name.h"

#include <pthread.h>
#include <stdatomic.h>

struct rbd_store {
	/* Constant after rbd_store_get(). */
	const struct rbd_module *module;
	struct rbd_image *image;
	struct rbd_facts facts;
	char *path; /* for messages */
	struct rbd_name name;

	_Atomic bool exclusive; /* changes need the exclusive lock */
	_Atomic bool force;     /* which may be taken away from a living owner */
	_Atomic bool held;      /* this process has the lock, as far as it knows */
	_Atomic bool changed;   /* a change was started without the lock */
	_Atomic bool fenced;    /* the cluster refuses this process, or has given the lock away:
				   nothing may succeed any more */

	/* Taking the lock: see rbd_lock.c. */
	pthread_mutex_t mutex; /* guards the members below */
	pthread_cond_t stopping;
	struct backing_call *waiting, **waiting_tail; /* changes that wait for the lock */
	bool taking;                                  /* .thread takes it */
	bool joinable, stop;
	pthread_t thread;

	/* The size, as others change it: see rbd_size.c. */
	_Atomic uint64_t size;       /* in bytes, as far as it is known; writable images only */
	_Atomic bool resized;        /* it may be another one by now, and .sizer asks */
	pthread_mutex_t sizing;      /* guards the members below; held only for moments */
	pthread_cond_t news;         /* for .sizer */
	unsigned int doubts;         /* reasons to ask, so far */
	struct backing_call *unsure; /* changes that succeeded meanwhile: perhaps only in part */
	bool untold;                 /* some followers are behind */
	bool sized, over;            /* .sizer runs; it shall end */
	pthread_t sizer;
	bool shrunk;               /* .sizer's: became smaller, and the followers don't know */
	pthread_mutex_t following; /* guards .followers; held while they are called */
	struct size_follower *followers;

	/* Guarded by the mutex of rbd_store.c. */
	unsigned int users;
	struct rbd_store *next;
};

#endif
