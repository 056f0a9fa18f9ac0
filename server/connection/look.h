/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A look at the image of an export that a client wants to choose: its file may have another size by
 * now, and clients are told the present one; or a clone is made for the client. The exports look,
 * on a thread of their own, since the file system may let them wait; meanwhile the client's
 * handshake waits, but not for long. Only the worker's thread calls these functions.
 */
#ifndef SERVER_CONNECTION_LOOK_H
#define SERVER_CONNECTION_LOOK_H

#include "server/connection/worker_state.h"

#include <stdbool.h>
#include <time.h>

struct conn;
struct export;

struct look {
	struct worker_message message; /* to be posted when it is over */
	struct worker *worker;
	struct export *export; /* the exports hold it until they post the message */
	struct look *next;     /* the exports' */
	char *owner;           /* a clone is to be made for this client; NULL: none */

	/* The worker's own. */
	struct conn *conn; /* NULL: it waits no longer */
	void (*go_on)(struct conn *conn);
	time_t limit; /* CLOCK_MONOTONIC, seconds: the client waits no longer */
};

/* Begins the look that the handshake of the connection waits for. `go_on` is called when it is
 * over, or has taken too long. False: there will be none. */
bool
look_begin(struct conn *conn, void (*go_on)(struct conn *conn));

/* Waits no longer if the look has taken too long. `now`: CLOCK_MONOTONIC, seconds. */
void
look_check(struct conn *conn, time_t now);

/* The connection ends, and waits no longer. */
void
look_forget(struct conn *conn);

#endif
