/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The search for extents of an image in Ceph with cluster-timeout. librbd has it only as a call
 * that waits, so each runs on a thread of its own (rbd_thread.h). One whose time is over is
 * abandoned like other calls (rbd_pending.h), and as long as the cluster has not answered, no other
 * begins.
 */
#ifndef ENGINE_BACKING_RBD_SEARCH_H
#define ENGINE_BACKING_RBD_SEARCH_H

#include "engine/backing/rbd_state.h"

/* As .extents() of struct backing_kind; also returns -ETIMEDOUT, perhaps after some visits. The
 * store has a timeout. */
int
rbd_search(struct rbd_store *store, uint64_t offset, uint64_t length, bool one, extent_visit visit,
	   void *data);

#endif
