/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets on which clients connect. Used by the main thread only.
 */
#ifndef SERVER_DAEMON_LISTENER_H
#define SERVER_DAEMON_LISTENER_H

#include "server/config/server_config.h"

#include "common/accept_pause.h"
#include "common/unix_socket.h"

/* Longest text for a peer, with its NUL. */
#define PEER_MAX 64

struct listener {
	int fd;                  /* non-blocking */
	char text[128];          /* "127.0.0.1:10809", for the log */
	bool network;            /* other machines can reach it */
	bool private;            /* only the server's user can reach it: its mode is 0600 */
	struct unix_socket file; /* .fd -1: not a unix socket that we made */
	struct accept_pause pause;
	struct listener *next;
};

/* Opens the sockets of the configuration, and takes over `passed` sockets (activation.h). One that
 * other machines can reach needs TLS, or a user who says that there shall be none. Returns
 * 0, or -errno with *error a sentence (caller frees) and *listeners NULL. */
int
listeners_open(struct listener **listeners, const struct server_config *config, unsigned int passed,
	       char **error);

/* Adds a unix socket, whose mode is subject to the umask; or a private one, which only this user
 * can reach. Returns 0, or -errno with *error a sentence (caller frees). */
int
listeners_add_unix(struct listener **listeners, const char *path, bool private, char **error);

/* Adds TCP at all addresses of that host; port 0: the kernel chooses one for each. `option` is
 * named in errors. Returns the same, but may have added some addresses. */
int
listeners_add_inet(struct listener **listeners, const char *host, unsigned int port,
		   const char *option, char **error);

/* Closes and frees all; removes the files of unix sockets. */
void
listeners_close(struct listener **listeners);

/* Accepts a connection, and describes the client in `peer`. Returns a descriptor (caller closes),
 * or -1: no connection waits, or the listener is paused now. */
int
listener_accept(struct listener *listener, char peer[PEER_MAX]);

/* Sets the options of a connected socket of any kind, and describes the client in `peer`. */
void
peer_prepare(int fd, char peer[PEER_MAX]);

#endif
