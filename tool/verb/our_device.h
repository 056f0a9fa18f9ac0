/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that nbdloop has attached, for the verbs that ask or change its server.
 */
#ifndef TOOL_VERB_OUR_DEVICE_H
#define TOOL_VERB_OUR_DEVICE_H

#include "tool/device/device.h"
#include "tool/link/server_command.h"

#include <glib.h>
#include <jansson.h>

struct our_device {
	struct device *device;
	char *control; /* path of its server's control socket; NULL: the device is attached to a
			  URI, its backend */
};

/* `text`: the name, as the user wrote it.  Fails with an error if the device isn't attached, or was
 * attached by another program; and for users other than root. */
bool
our_device_find(struct our_device *ours, const char *text, GError **error);
void
our_device_fini(struct our_device *ours);

#define OUR_DEVICE_CLEANUP __attribute__((cleanup(our_device_fini)))

/* The same for a change that only a server of nbdloop's can make: a URI is an error. */
bool
our_device_find_served(struct our_device *ours, const char *text, GError **error);

/*
 * The functions below wait for a server that is being replaced or restarted: they ask again for up
 * to 10 seconds.
 */

/* The only export of its server, from the status; NULL with an error.  Caller frees. */
json_t *
our_device_export(const struct our_device *ours, GError **error);

/* The export as the server reports it after a change ("set direct-io=on", "resize"), which may take
 * long. */
json_t *
our_device_change_export(const struct our_device *ours, const char *request, GError **error);

/* Which program the server is, as it reports itself; an error if it doesn't answer. */
bool
our_device_server(const struct our_device *ours, enum server_kind *kind, GError **error);

/* Sends a request to the guard (tool/guard/guard_link.h); an error names the device. */
bool
our_device_ask_guard(const struct our_device *ours, const char *request, GError **error);

#endif
