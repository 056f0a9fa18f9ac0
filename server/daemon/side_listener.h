/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A unix socket for the clients of snapshots, beside the control socket, of a server that listens
 * nowhere because it was started for connections that are passed to it (--fd, --fd-from), such as
 * that of a device of nbdloop; or for those who want one on this machine, such as nbdloop check. It
 * is made when it is first needed, and doesn't keep the server from ending.
 */
#ifndef SERVER_DAEMON_SIDE_LISTENER_H
#define SERVER_DAEMON_SIDE_LISTENER_H

#include <stdatomic.h>
#include <stdbool.h>

struct listener;

struct side_listener {
	const char *control; /* path of the control socket, borrowed; or NULL */
	bool needed;         /* the server listens nowhere else */
	int wake;            /* an eventfd that wakes the main thread up */
	/* NULL: none yet. Set by the control socket's thread for changes; then the main thread's.
	 */
	_Atomic(struct listener *) listener;
};

/* Makes the socket if the server needs one, or `local` says so, and has none yet; `data` is the
 * struct side_listener. On the control socket's thread for changes. 0, or -errno with *error a
 * sentence (caller frees). */
int
side_listener_open(void *data, bool local, char **error);

/* The path of the socket, as long as the server runs; NULL: there is none. Any thread. */
const char *
side_listener_path(const void *data);

/* When no thread uses it any more. */
void
side_listener_close(struct side_listener *side);

#endif
