/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Snapshots that Ceph makes of an image, checkpoints too (rbd_checkpoint.h), and their removal.
 * Both wait for the cluster, so they are jobs (rbd_worker.h), and those who want the result may
 * stop waiting for it. A snapshot for which nobody waits any more is removed again when it is made
 * at last; none of another name is touched.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_SNAPSHOT_H
#define ENGINE_BACKING_CEPH_RBD_SNAPSHOT_H

#include "engine/backing/ceph/rbd_state.h"

/* Of the name of every snapshot that is made here, but for checkpoints: nbdloop.LABEL.ID */
#define RBD_SNAPSHOT_PREFIX "nbdloop."

/* As the members of struct backing_snapshots, and of struct backing_checkpoints with `checkpoint`,
 * whose name the label is. */
int
rbd_snapshot_prepare(struct rbd_store *store, const char *label, bool checkpoint,
		     struct backing_snapshot **snapshot, char **error);
int
rbd_snapshot_start(struct backing_snapshot *snapshot, char **error);
int
rbd_snapshot_await(struct backing_snapshot *snapshot, int64_t end, char **error);
void
rbd_snapshot_free(struct backing_snapshot *snapshot);

/* The image that the snapshot was made of, and the name that the snapshot has there. */
struct rbd_store *
rbd_snapshot_origin(const struct backing_snapshot *snapshot);
const char *
rbd_snapshot_name(const struct backing_snapshot *snapshot);

/* The snapshot stays: rbd_snapshot_free() does not remove it from the cluster. */
void
rbd_snapshot_keep(struct backing_snapshot *snapshot);

/* Removes the snapshot of that name, which was made here. Does not wait for the cluster, which may
 * be away; what can't be removed is in the log. */
void
rbd_snapshot_remove(struct rbd_store *store, const char *name);

/* As remove() and await_removal() of struct backing_checkpoints. */
int
rbd_snapshot_remove_checkpoint(const struct backing *backing, uint64_t id, bool anyway,
			       struct backing_removal **removal, char **error);
int
rbd_snapshot_await_removal(struct backing_removal *removal, int64_t end, char **error);

#endif
