/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loss of an image in Ceph to another client: nothing may succeed here any more.
 */
#ifndef ENGINE_BACKING_RBD_LOSS_H
#define ENGINE_BACKING_RBD_LOSS_H

#include "engine/backing/rbd_state.h"

/* Notes the loss if a result tells of it. `changes`: the result is that of a change. Any thread. */
void
rbd_loss_note(struct rbd_store *store, bool changes, int result);

/* Ends a call that rbd_pending_take() took, after a loss with -ESHUTDOWN. Any thread. */
void
rbd_loss_finish(struct rbd_store *store, struct backing_call *call, int result);

#endif
