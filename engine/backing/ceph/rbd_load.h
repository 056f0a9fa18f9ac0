/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads the module for images in Ceph.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_LOAD_H
#define ENGINE_BACKING_CEPH_RBD_LOAD_H

#include "engine/backing/ceph/rbd_module.h"

/* Returns the module, which stays loaded until the process ends; or NULL with *error, a sentence
 * that begins with `path` and has the way out (the caller frees it). */
const struct rbd_module *
rbd_load(const char *path, char **error);

#endif
