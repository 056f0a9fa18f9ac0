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

/* As .extents() of struct backing_kind, and .changes() of struct backing_checkpoints; they also
 * return -ETIMEDOUT, perhaps after some visits. */
int
rbd_search_extents(const struct backing *backing, uint64_t offset, uint64_t length, bool one,
		   extent_visit visit, void *data);
int
rbd_search_changes(const struct backing *backing, uint64_t id, uint64_t offset, uint64_t length,
		   extent_visit visit, void *data);

#endif
