/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loss of an image in Ceph to another client: nothing may succeed here any more. Another client
 * can fence this one; and it can disable the image's feature exclusive-lock, or break the lock,
 * after which librbd goes on writing.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_LOSS_H
#define ENGINE_BACKING_CEPH_RBD_LOSS_H

#include "engine/backing/ceph/rbd_state.h"

/* Declares the loss if a result tells of it. `changes`: the result is that of a change. Any thread.
 */
void
rbd_loss_note(struct rbd_store *store, bool changes, int result);

/* Ends a call that rbd_pending_take() took, after a loss with -ESHUTDOWN. Any thread. */
void
rbd_loss_finish(struct rbd_store *store, struct backing_call *call, int result);

/* Asks whether the image still has an exclusive lock, and this process owns it if it took it; if
 * not, declares the loss. Waits for the cluster. Returns 0, or -errno if that is not known. */
int
rbd_loss_check(struct rbd_store *store);

#endif
