/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A unix socket (SOCK_SEQPACKET) over which the program that started the server, such as nbdloop's
 * guard, passes connected sockets (--fd-from). Each message has all sockets of one client, and the
 * server has one client at a time:
 *
 *	WAITS  -> SERVES   a message has come: the connections of its sockets begin
 *	SERVES -> WAITS    no connection is left, and no request of one: the program is told
 *	WAITS  -> CLOSED   the program has closed its end
 *
 * While it SERVES, the next message stays in the socket. So what the client repeats over new
 * connections is never carried out before what it had sent over the old ones. Runs on the main
 * thread.
 */
#ifndef SERVER_DAEMON_SUPPLY_H
#define SERVER_DAEMON_SUPPLY_H

#include <stdbool.h>

struct acceptor;
struct pollfd;

struct supply {
	int fd;      /* -1: CLOSED, or there is none */
	bool serves; /* else it WAITS */
};

/* What the server tells the program when it WAITS again. */
#define SUPPLY_IDLE "idle"

/* Takes over the inherited socket. 0, or -errno with *error a sentence (caller frees). */
int
supply_open(struct supply *supply, int fd, char **error);

/* Lists the socket for poll(), if it WAITS; to be called after each change. `idle`: the server has
 * no connection. Returns whether it WAITS. */
bool
supply_list(struct supply *supply, bool idle, struct pollfd *polled);

/* Takes the message that poll() has found, or the end. */
void
supply_take(struct supply *supply, struct acceptor *acceptor);

/* Closes the socket, if there is one. */
void
supply_close(struct supply *supply);

#endif
