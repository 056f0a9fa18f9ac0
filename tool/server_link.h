/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way from a device to its server: the control socket, whose path is in the device's backend identifier.
 */
#ifndef TOOL_SERVER_LINK_H
#define TOOL_SERVER_LINK_H

#include <json-glib/json-glib.h>

/* "nbdloop:PATH".  Caller frees. */
char *
server_link_backend(const char *control_path);

/* The path, or NULL if the identifier (which may be NULL) isn't ours.  Caller frees. */
char *
server_link_path(const char *backend);

/*
 * Sends a request, a line without its newline, and waits at most 5 seconds for the answer.  NULL with an error also when the
 * answer is the server's refusal, in its own words.
 */
JsonObject *
server_link_ask(const char *control_path, const char *request, GError **error);

#endif
