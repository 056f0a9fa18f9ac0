/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The size of an image in Ceph, which others may change while it is served, like its features,
 * which decide whether there is an exclusive lock at all.
 *
 * librbd carries out only a part of a change that goes beyond the end of the image, and goes on
 * writing when the lock is gone; it reports success both times. So the store asks: Ceph tells of
 * each update of the image, and a job then asks for the size, the features and the owner of the
 * lock. Until it has the answers, no change is acknowledged. librbd's own threads can't ask,
 * because the answer may need them.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_SIZE_H
#define ENGINE_BACKING_CEPH_RBD_SIZE_H

#include "engine/backing/ceph/rbd_state.h"

/* Learns the size, and begins to follow it. Returns 0 or -errno. */
int
rbd_size_begin(struct rbd_store *store);

/* No call may be in flight. */
void
rbd_size_end(struct rbd_store *store);

/* Has the job ask. Never waits. */
void
rbd_size_doubt(struct rbd_store *store);

/* Takes a change that librbd calls a success, if it is not sure that all of it was carried out: it
 * ends when the size is known, by rbd_loss_finish(). Never waits. */
bool
rbd_size_await(struct rbd_store *store, struct backing_call *call, int result);

/* As .follow_size() and .unfollow_size() of struct backing_kind. */
void
rbd_size_follow(const struct backing *backing, struct size_follower *follower);
void
rbd_size_unfollow(const struct backing *backing, struct size_follower *follower);

#endif
