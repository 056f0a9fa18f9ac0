/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An open image in Ceph. All exports of one image in this process share it, since it is one client
 * of the cluster, and owns the image's exclusive lock for all of them.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_STORE_H
#define ENGINE_BACKING_CEPH_RBD_STORE_H

#include "engine/backing/ceph/rbd_state.h"

/* Opens an image, or returns the one that is open. Returns 0, and the caller gives *store back with
 * rbd_store_put(); or -errno with *error (the caller frees it). */
int
rbd_store_get(const struct rbd_module *module, const struct rbd_place *place,
	      struct rbd_store **store, char **error);
void
rbd_store_put(struct rbd_store *store);

/* Has the snapshot that `store` is removed from its origin after the last user has put it back, and
 * keeps the origin open until then. */
void
rbd_store_remove_at_end(struct rbd_store *store, struct rbd_store *origin);

/* As .start() of struct backing_kind. */
void
rbd_store_start(const struct backing *backing, struct backing_call *call);

#endif
