/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images in Ceph as backings. librbd moves their bytes, by asynchronous calls.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_H
#define ENGINE_BACKING_CEPH_RBD_H

#include "engine/backing/kind.h"

extern const struct backing_kind backing_rbd;

#endif
