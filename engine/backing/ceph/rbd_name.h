/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of images in Ceph: rbd:POOL[/NAMESPACE]/IMAGE[@SNAPSHOT], the form that Ceph's own tools
 * use after the colon.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_NAME_H
#define ENGINE_BACKING_CEPH_RBD_NAME_H

#include "engine/backing/image_kind.h"

/* The parts of a name. They point into .text. */
struct rbd_name {
	char *text;
	const char *pool, *image;
	const char *space, *snapshot; /* NULL: not given */
};

/* A file of such a name is ./rbd:... */
extern const struct image_kind image_kind_ceph;

/* Takes a name apart. Returns 0, and the caller frees .text; or -EINVAL or -ENOMEM with *error, a
 * sentence (the caller frees it). */
int
rbd_name_parse(const char *path, struct rbd_name *name, char **error);

#endif
