/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One writer of an image in Ceph: the exclusive lock is taken before the first change, so a second
 * server of the image may run and wait for its turn; or at the start, if the server is to have the
 * image for itself, perhaps in the place of a predecessor.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_LOCK_H
#define ENGINE_BACKING_CEPH_RBD_LOCK_H

#include "engine/backing/ceph/rbd_state.h"

/* Takes the value of ceph-fence apart, or NULL; `path` is for the message. Returns 0; or -EINVAL
 * with *error, a sentence (the caller frees it). */
int
rbd_predecessor_parse(const char *path, const char *text, struct rbd_predecessor *predecessor,
		      char **error);

/* Takes the lock, and waits for that: for the cluster, and for up to 40 seconds for an owner that
 * may be dead. Returns 0; or with *error, a sentence (the caller frees it), -EBUSY if another
 * client has the lock; -ESTALE if it is not, or no longer, the predecessor's; or another -errno. */
int
rbd_lock_take(struct rbd_store *store, const struct rbd_predecessor *predecessor, char **error);

/* Has a change wait for the lock, which a job takes: later it is started, or it fails with -EBUSY
 * or another -errno. Returns false if the lock was taken meanwhile. */
bool
rbd_lock_await(struct rbd_store *store, struct backing_call *call);

/* Around what librbd takes the lock for by itself, if nobody has it: afterwards it is given back,
 * unless this process has it for its changes. Else it would be kept, and other servers' changes
 * would fail. Giving it back waits for the cluster. */
void
rbd_lock_borrow(struct rbd_store *store);
void
rbd_lock_give_back(struct rbd_store *store);

/* Those that wait fail with -ESHUTDOWN soon, and later ones after one try. Never waits. */
void
rbd_lock_give_up(struct rbd_store *store);

/* Begins, before all other calls. Ends the job that takes the lock, when no call is in flight. */
void
rbd_lock_begin(struct rbd_store *store);
void
rbd_lock_stop(struct rbd_store *store);

/* Gives the lock back, if it was taken, before the image is closed. Waits for the cluster. */
void
rbd_lock_release(struct rbd_store *store);

#endif
