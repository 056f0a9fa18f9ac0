/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images in Ceph as backings. librbd moves their bytes, by asynchronous calls.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_H
#define ENGINE_BACKING_CEPH_RBD_H

#include "engine/backing/backing.h"
#include "engine/image_config.h"

/* Opens an image: rbd_name_is(path). `flags` are BACKING_*. Returns as backing_open(). */
int
rbd_open(struct backing *backing, const char *path, unsigned int flags,
	 const struct image_config *config, char **error);

#endif
