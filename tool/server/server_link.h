/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asking the server of a device, by its control socket.  The kernel keeps the socket's path for us:
 * it is in the backend identifier that the device was attached with.
 */
#ifndef TOOL_SERVER_SERVER_LINK_H
#define TOOL_SERVER_SERVER_LINK_H

#include <json-glib/json-glib.h>

/* The identifier for a server: "nbdloop:PATH"; the path must be absolute.  Caller frees (g_free).
 */
char *
server_link_backend(const char *control_path);

/* The path in an identifier, or NULL: it isn't one of ours, or NULL.  Caller frees (g_free). */
char *
server_link_path(const char *backend);

/*
 * Sends a request (control/control_request.h; without its newline) and waits for the answer, 5
 * seconds at most.  Returns the answer, which the caller frees (json_object_unref), or NULL with
 * *error (tool/failure.h): ENOENT or ECONNREFUSED, there is no such server; ETIMEDOUT, it doesn't
 * answer; EINVAL, it refuses, in its own words; others.
 */
JsonObject *
server_link_ask(const char *control_path, const char *request, GError **error);

/* The status of the server that a device's backend identifier names; NULL without an error: it is
 * no server of ours.  Caller frees. */
JsonObject *
server_link_status(const char *backend, GError **error);

/* The server's process ID in its status; 0: it tells none, or `status` is NULL. */
pid_t
server_link_pid(JsonObject *status);

/*
 * The same for a request that changes something, without a limit while the server lives: what is in
 * the page cache may have to be written before direct I/O is on, and a slow disk takes its time.
 * EPIPE: the server has ended meanwhile.
 */
JsonObject *
server_link_change(const char *control_path, const char *request, GError **error);

/* The export of a server of ours in its status: the only one; NULL: it tells none, or several.
 * Borrowed; `status` NULL is fine. */
JsonObject *
server_link_export(JsonObject *status);

#endif
