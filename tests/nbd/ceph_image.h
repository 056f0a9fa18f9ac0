/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Images in Ceph for the targets that need them. A test makes its image as a file in its scratch
 * directory; the server gets a copy of it in the cluster of $CEPH_CONF (tests/lib/ceph-cluster),
 * and the file is updated from there before the test looks at it.
 */
#ifndef TESTS_NBD_CEPH_IMAGE_H
#define TESTS_NBD_CEPH_IMAGE_H

#include <stdbool.h>

/* Copies a file into the cluster, unless it is there already. Returns the name for a server, which
 * lives until the test ends. */
const char *
ceph_image_import(const char *path);

/* Returns whether the file has a copy in the cluster. */
bool
ceph_image_is_imported(const char *path);

/* Updates a file from its copy, if it has one. */
void
ceph_image_update(const char *path);

/* Removes all copies, after each test. */
void
ceph_image_remove_all(void);

#endif
