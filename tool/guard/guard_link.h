/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the other verbs talk to the guard of a device with a server of its own (tool/guard/guard.h):
 * by a socket beside that server's control socket, one request and one answer each.  The requests
 * are
 *
 *	direct-io on|off	it was switched: the next server begins like that
 *	iops-limit LIMIT	it was set: the same
 *	bandwidth-limit LIMIT	the same
 *	replace			start a new server in place of the present one
 *	image PATH		the same, and it serves another image: PATH is absolute
 *	resize BYTES		the image has another size, as its server knows: so has the device
 */
#ifndef TOOL_GUARD_GUARD_LINK_H
#define TOOL_GUARD_GUARD_LINK_H

#include "common/accept_pause.h"

#include <glib.h>
#include <poll.h>
#include <stdbool.h>

/*
 * Asks the guard of the server with this control socket, and waits until it answers or ends.  False
 * with an error: ECONNREFUSED, there is no guard any more; EINVAL, it refuses or could not do it,
 * in its own words; others.
 */
bool
guard_link_ask(const char *control_path, const char *request, GError **error);

/* Removes the socket of a guard that was killed. */
void
guard_link_forget(const char *control_path);

/* ---- the guard's end */

struct guard_link {
	char *path; /* NULL: there is none */
	int fd;
	struct accept_pause pause;
};

/* The directory of `control_path` must be there; only its owner can connect. */
bool
guard_link_listen(struct guard_link *link, const char *control_path, GError **error);

/* Closes the socket and removes its file. */
void
guard_link_close(struct guard_link *link);

/* The descriptor and events that poll() has to wait for; shortens *timeout_ms (-1: no limit)
 * while the link is paused. */
struct pollfd
guard_link_polled(struct guard_link *link, int *timeout_ms);

/* A request that has arrived, with *peer for guard_link_answer(); NULL: there is none.  Caller
 * frees (g_free). */
char *
guard_link_take(struct guard_link *link, int *peer);

/* Answers a request (`error` NULL: it succeeded), and closes `peer`. */
void
guard_link_answer(int peer, const GError *error);

#endif
