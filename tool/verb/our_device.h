/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that nbdloop has attached, for the verbs that ask or change its server.
 */
#ifndef TOOL_VERB_OUR_DEVICE_H
#define TOOL_VERB_OUR_DEVICE_H

#include "tool/device/device.h"
#include "tool/server/server_command.h"

#include <json-glib/json-glib.h>

struct our_device {
	struct device *device;
	char *control; /* path of its server's control socket; NULL: it is attached to a URI, which
			  is its backend */
};

/* `text`: as the user named it.  Fails with an error if it isn't attached, or by somebody else; and
 * for all but root. */
bool
our_device_find(struct our_device *ours, const char *text, GError **error);
void
our_device_fini(struct our_device *ours);

#define OUR_DEVICE_CLEANUP __attribute__((cleanup(our_device_fini)))

/* The same for a device with a server of its own, for changes that only such a server can make. */
bool
our_device_find_served(struct our_device *ours, const char *text, GError **error);

/*
 * The functions below wait for a server that is being replaced, or has died: they ask again and
 * again for 10 seconds.
 */

/* The only export of its server as the status tells it; NULL with an error.  Caller unrefs. */
JsonObject *
our_device_export(const struct our_device *ours, GError **error);

/* The same as the server tells it after a change ("set direct-io=on", "resize"), which may take its
 * time. */
JsonObject *
our_device_change_export(const struct our_device *ours, const char *request, GError **error);

/* Which program serves it, by its own word; an error if it says nothing. */
bool
our_device_server(const struct our_device *ours, enum server_kind *kind, GError **error);

/* A request to its guard (tool/guard/guard_link.h), with an error that names the device. */
bool
our_device_ask_guard(const struct our_device *ours, const char *request, GError **error);

#endif
