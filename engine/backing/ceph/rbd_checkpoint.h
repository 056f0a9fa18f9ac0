/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints of an image in Ceph: snapshots in the cluster, named nbdloop-checkpoint.NAME.ID. So
 * they count what all clients change, and every server of the image has them.
 *
 * The store has a list of them, and learns it anew when Ceph tells of an update of the image; of an
 * image that is open read-only, Ceph tells nothing.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_CHECKPOINT_H
#define ENGINE_BACKING_CEPH_RBD_CHECKPOINT_H

#include "engine/backing/ceph/rbd_state.h"

#define RBD_CHECKPOINT_PREFIX "nbdloop-checkpoint."

/* The longest name of one in the cluster, in bytes. */
#define RBD_CHECKPOINT_NAME_MAX                                                                    \
	(sizeof(RBD_CHECKPOINT_PREFIX) - 1 + BACKING_CHECKPOINT_NAME_MAX + 1 + 16)

/* Learns from the cluster which checkpoints there are, and waits for it. Returns 0, or -errno, and
 * the list is the old one. */
int
rbd_checkpoints_learn(struct rbd_store *store);

/* After one was made, of that name in the cluster: whether it may stay. Waits for the cluster.
 * Returns 0; -ENOTUNIQ: there is an older one of that name; -ENOSPC: there are too many; or another
 * -errno. */
int
rbd_checkpoint_judge(struct rbd_store *store, const char *name);

/* Frees the list. */
void
rbd_checkpoints_free(struct rbd_store *store);

/* Copies the name in the cluster. Returns false if there is none of that id. Never waits. */
bool
rbd_checkpoint_name(struct rbd_store *store, uint64_t id, char name[RBD_CHECKPOINT_NAME_MAX + 1]);

/* Members of struct backing_checkpoints. */
uint64_t
rbd_checkpoints_edition(const struct backing *backing);
size_t
rbd_checkpoints_list(const struct backing *backing, struct backing_checkpoint list[], size_t most);

#endif
