/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that find no place among --max-connections. Each gets a handshake in which every option
 * is refused with the reason, until it leaves or its time is up. They cost no worker and no place
 * of other clients: a few have places here, and further ones are closed without a word.
 *
 * In such a handshake there is no TLS, and the client is not told that TLS is required: a server
 * that says so must agree to begin it, and a computation for a stranger is not worth the reason.
 *
 * Used by the main thread only, which polls their sockets, and never waits for one.
 */
#ifndef SERVER_DAEMON_REFUSALS_H
#define SERVER_DAEMON_REFUSALS_H

#include "nbd/handshake.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

/* Places of such clients; each takes about 20 KiB while it is in use. */
#define REFUSALS_MAX 16

struct refused {
	struct nbd_handshake *handshake; /* NULL: the place is free */
	int fd;
	int64_t until; /* CLOCK_MONOTONIC, ms: then it is closed */
	bool over;     /* all is said; waits for the client to read it and to leave */
};

/* All zero, but for the refusal: none are there. */
struct refusals {
	char text[80];              /* of the following */
	struct nbd_refusal refusal; /* what they are told */
	struct refused clients[REFUSALS_MAX];
};

/* `max`: the connections that the server allows. */
void
refusals_init(struct refusals *refusals, unsigned int max);

/* Greets the client of a connected socket, or closes that if there is no place. Takes over the
 * descriptor. */
void
refusals_add(struct refusals *refusals, int fd);

/* Closes those whose time is up, and lists the others in REFUSALS_MAX entries for poll(); .fd is -1
 * for free places. Returns poll()'s timeout in milliseconds, at most `timeout`. */
int
refusals_list(struct refusals *refusals, struct pollfd *polled, int timeout);

/* Answers those that poll() reports. */
void
refusals_answer(struct refusals *refusals, const struct pollfd *polled);

/* Closes all. */
void
refusals_close(struct refusals *refusals);

#endif
