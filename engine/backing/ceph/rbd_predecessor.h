/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client of Ceph whose place a server takes (ceph-fence), and whether it still has its place:
 * if not, somebody else has had the image since.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_PREDECESSOR_H
#define ENGINE_BACKING_CEPH_RBD_PREDECESSOR_H

#include "engine/backing/ceph/rbd_module.h"

struct rbd_predecessor {
	char address[128]; /* "": there is none */
	bool may_be_gone;  /* it has given the lock back, so nobody needs to have it */
};

/* Takes the value of ceph-fence apart, or NULL; `path` is for the message. Returns 0; or -EINVAL
 * with *error, a sentence (the caller frees it). */
int
rbd_predecessor_parse(const char *path, const char *text, struct rbd_predecessor *predecessor,
		      char **error);

/* Whether the lock's owner is the predecessor, or nobody if that has given it back. Of no
 * predecessor, any owner is right. */
bool
rbd_predecessor_fits(const struct rbd_predecessor *predecessor, const struct rbd_owner *owner);

/* Whether the owner is the predecessor itself, to be fenced dead or alive. */
bool
rbd_predecessor_owns(const struct rbd_predecessor *predecessor, const struct rbd_owner *owner);

#endif
