/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The facts of an attached device: the kernel's, and those that its server tells.  A copy of one
 * moment; nothing of it is stored anywhere.
 */
#ifndef TOOL_SHOW_LISTING_H
#define TOOL_SHOW_LISTING_H

#include "tool/device/device.h"

#include <json-glib/json-glib.h>

struct listing {
	struct device *device;
	char *server; /* what serves it: "nbdloopd", a process that keeps the device, "remote", or
			 NULL: unknown */
	JsonObject *status; /* the server's answer to "status", or NULL */
	JsonObject *image;  /* of the image in it, or NULL; borrowed from status */
	pid_t guard;        /* 0: it was killed; -1: unknown, or there is none to be */
	char *trouble;      /* what isn't as it should be, a sentence without the device; or NULL */
};

/*
 * Takes over an attached device, and asks its server, which may take 5 seconds when that hangs.
 * `proc`: "/proc", or a recorded tree.
 */
struct listing *
listing_new(struct device *device, const char *proc);

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

/* A member of the image's status, or a null where it is unknown.  Caller frees (json_node_unref).
 */
JsonNode *
listing_member(const struct listing *listing, const char *member);

#endif
