/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of `nbdloop attach' for an image in Ceph (rbd:POOL/IMAGE).
 */
#ifndef TOOL_ATTACH_ATTACH_CEPH_H
#define TOOL_ATTACH_ATTACH_CEPH_H

#include <glib.h>
#include <stdbool.h>

struct attach_ceph {
	char *conf, *user, *keyring; /* NULL: the default */
	unsigned int timeout;        /* seconds; 0: none */
};

/* Whether the options suit `place`, an image or a URI: these are for images in Ceph only, where
 * --swap and --nooverlap are not possible. */
bool
attach_ceph_check(const struct attach_ceph *ceph, const char *place, bool swap, bool nooverlap,
		  GError **error);

/* Adds them to a server's, in nbdloopd's form.  Paths become absolute; what CEPH_CONF names is
 * added, too, because the environment of the next server may be another one. */
void
attach_ceph_add(const struct attach_ceph *ceph, GPtrArray *words);

#endif
