/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the exclusive lock of an image in Ceph may still be trusted. Another client can disable
 * the feature, or break the lock, while the image is open, and librbd goes on writing then.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_TRUST_H
#define ENGINE_BACKING_CEPH_RBD_TRUST_H

#include "engine/backing/ceph/rbd_state.h"

/* Asks whether the image still has an exclusive lock, and this process owns it if it took it; if
 * not, declares the loss. Both may end while the image is open. Waits for the cluster. Returns 0,
 * or -errno if that is not known. */
int
rbd_trust_confirm(struct rbd_store *store);

#endif
