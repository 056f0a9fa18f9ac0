/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets on which clients connect.  Used by the main thread only.
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
	struct unix_socket file; /* .fd -1: it isn't one that we made */
	struct accept_pause pause;
	struct listener *next;
};

/* Opens all that the configuration asks for, and takes over as many passed sockets (activation.h).
 * Returns 0, or -errno with *error a sentence (caller frees); then *listeners is none. */
int
listeners_open(struct listener **listeners, const struct server_config *config, unsigned int passed,
	       char **error);

/* Closes and frees all; removes the files of unix sockets. */
void
listeners_close(struct listener **listeners);

/* Accepts a connection, and says who it is.  A descriptor (caller closes), or -1: nobody waits, or
 * it is paused now. */
int
listener_accept(struct listener *listener, char peer[PEER_MAX]);

/* Makes a connected socket of any kind fit for NBD, and says who is at its other end. */
void
peer_prepare(int fd, char peer[PEER_MAX]);

#endif
