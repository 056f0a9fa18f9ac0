/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The search for extents of an image in Ceph, or for what has changed since a checkpoint. librbd
 * has it only as a call that waits. With cluster-timeout, each is a job (rbd_worker.h), and one
 * whose time is over is abandoned like other calls (rbd_pending.h); as long as the cluster has not
 * answered, no other begins.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_SEARCH_H
#define ENGINE_BACKING_CEPH_RBD_SEARCH_H

#include "engine/backing/ceph/rbd_state.h"

struct rbd_search {
	uint64_t checkpoint;     /* id; 0: for extents */
	uint64_t offset, length; /* in bytes */
};

/* As .extents() of struct backing_kind, or .changes() of struct backing_checkpoints; also returns
 * -ETIMEDOUT, perhaps after some visits. `one`: only for extents. */
int
rbd_search(struct rbd_store *store, const struct rbd_search *search, bool one, extent_visit visit,
	   void *data);

#endif
