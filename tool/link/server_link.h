/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to the server of a device, through its control socket.  The kernel stores the socket's
 * path for us: it is in the backend identifier that the device was attached with.
 */
#ifndef TOOL_LINK_SERVER_LINK_H
#define TOOL_LINK_SERVER_LINK_H

#include <glib.h>
#include <jansson.h>

/* How long server_link_ask() waits, microseconds. */
#define SERVER_LINK_PATIENCE (5 * G_USEC_PER_SEC)

/* The identifier for a server: "nbdloop:PATH"; the path must be absolute.  Caller frees (g_free).
 */
char *
server_link_backend(const char *control_path);

/* The path in an identifier; NULL: `backend` is NULL or not one of ours.  Caller frees (g_free). */
char *
server_link_path(const char *backend);

/*
 * Sends a request (control/control_request.h; without its newline) and waits for the answer, 5
 * seconds at most.  Returns the answer, which the caller frees (json_decref), or NULL with
 * *error (tool/failure.h): ENOENT or ECONNREFUSED, there is no such server; ETIMEDOUT, it doesn't
 * answer; EINVAL, it refuses, in its own words; others.  An integer above INT64_MAX is a string in
 * the answer.
 */
json_t *
server_link_ask(const char *control_path, const char *request, GError **error);

/* The same until `deadline` (g_get_monotonic_time()), without the 5 seconds, which still limit how
 * long it takes to connect. */
json_t *
server_link_ask_until(const char *control_path, const char *request, gint64 deadline,
		      GError **error);

/* The status of the server that a device's backend identifier names; NULL without an error: it is
 * no server of ours.  Caller frees. */
json_t *
server_link_status(const char *backend, GError **error);

/* The process ID of the server that a device's backend identifier names, without asking it; 0:
 * there is none, or it is no server of ours. */
pid_t
server_link_owner(const char *backend);

/* The server's process ID in its status; 0: there is none, or `status` is NULL. */
pid_t
server_link_pid(json_t *status);

/*
 * The same for a request that changes something, without a time limit while the server is alive:
 * dirty pages may have to be written back before direct I/O is on, and a disk may be slow.  EPIPE:
 * the server has ended meanwhile.
 */
json_t *
server_link_change(const char *control_path, const char *request, GError **error);

/* The only export, besides snapshots, in the status of a server of ours; NULL: it has none or
 * several, or `status` is NULL.  Borrowed. */
json_t *
server_link_export(json_t *status);

#endif
