/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The removal of snapshots of an image in Ceph. It waits for the cluster, which may be away, so it
 * is on a thread, and those who want its result may stop waiting for it.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_REMOVAL_H
#define ENGINE_BACKING_CEPH_RBD_REMOVAL_H

#include "engine/backing/ceph/rbd_state.h"

/* Begins to remove the snapshot of that name. Never waits. Returns 0 and the caller calls
 * rbd_removal_await(); or -errno. */
int
rbd_removal_start(struct rbd_store *store, const char *name, struct backing_removal **removal);

/* Waits for its end, up to a time of clock_ms(CLOCK_MONOTONIC). Returns 0, also if there was no
 * such snapshot; -EINPROGRESS: it goes on, and a failure will be in the log; or another -errno. */
int
rbd_removal_await(struct backing_removal *removal, int64_t end);

/* Removes the snapshot of that name, on the thread of the caller. Waits for the cluster. Returns 0,
 * also if there was no such snapshot, or -errno. */
int
rbd_remove_now(struct rbd_store *store, const char *name);

/* As remove() and await_removal() of struct backing_checkpoints. */
int
rbd_checkpoint_remove(struct rbd_store *store, uint64_t id, bool anyway,
		      struct backing_removal **removal, char **error);
int
rbd_checkpoint_await_removal(struct backing_removal *removal, int64_t end, char **error);

#endif
