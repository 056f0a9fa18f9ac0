/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The facts of an attached device at one moment: the kernel's, and those that its server reports.
 */
#ifndef TOOL_SHOW_LISTING_H
#define TOOL_SHOW_LISTING_H

#include "tool/device/device.h"

#include <glib.h>
#include <jansson.h>

struct listing {
	struct device *device;
	char *server;    /* "nbdloopd", "nbdkit", "remote", or the name of the process that has the
			    device open; NULL: unknown */
	const char *tls; /* "1.3 AES-128-GCM kernel" of a remote server; NULL: unknown, or none */
	char *remote;    /* "a:10809": the remote server in use; NULL: unknown, or none */
	unsigned int connections; /* to a remote server; 0: unknown, or none */
	json_t *status;           /* the server's answer to "status", or NULL */
	json_t *image;            /* of the image in it, or NULL; borrowed from status */
	pid_t guard;              /* 0: it was killed; -1: unknown, or the device needs none */
	char *trouble;            /* a problem, as a sentence without the device's name; or NULL */
};

/* Takes over an attached device, and asks its server, which takes 5 seconds if the server hangs. */
struct listing *
listing_new(struct device *device);

/* NULL is fine. */
void
listing_free(struct listing *listing);

/* The image or export: a path on this machine, or the URI of a remote server; NULL: unknown.
 * Caller frees (g_free). */
char *
listing_source(const struct listing *listing);

/* Whether its data is in `source`, a path (under whatever name) or a URI. */
bool
listing_has_source(const struct listing *listing, const char *source);

/* A member of the image's status, or a null where it is unknown.  Caller frees (json_decref).
 */
json_t *
listing_member(const struct listing *listing, const char *member);

#endif
