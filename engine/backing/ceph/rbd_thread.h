/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads for what librbd has only as calls that wait: those who want the result may stop waiting
 * for it, and the call goes on. The store is closed after the last of them.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_THREAD_H
#define ENGINE_BACKING_CEPH_RBD_THREAD_H

#include "engine/backing/ceph/rbd_state.h"

/* Runs a function on a thread, which ends with rbd_thread_end(). Returns 0 or -errno. */
int
rbd_thread_start(struct rbd_store *store, void *(*run)(void *data), void *data);

/* From now on, the thread no longer needs the store. */
void
rbd_thread_end(struct rbd_store *store);

/* Waits for all of them. No other may be started. */
void
rbd_threads_await(struct rbd_store *store);

#endif
