/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of images in Ceph: rbd:POOL[/NAMESPACE]/IMAGE[@SNAPSHOT], the form that Ceph's own tools
 * use after the colon.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_NAME_H
#define ENGINE_BACKING_CEPH_RBD_NAME_H

#include <stdbool.h>

/* The parts of a name. They point into .text. */
struct rbd_name {
	char *text;
	const char *pool, *image;
	const char *space, *snapshot; /* NULL: not given */
};

/* Returns whether a path names an image in Ceph. A file of such a name is ./rbd:... */
bool
rbd_name_is(const char *path);

/* Takes a name apart. Returns 0, and the caller frees .text; or -EINVAL or -ENOMEM with *error, a
 * sentence (the caller frees it). */
int
rbd_name_parse(const char *path, struct rbd_name *name, char **error);

#endif
