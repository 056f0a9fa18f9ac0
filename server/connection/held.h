/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests that a limit holds back: they stay in the connection's input, which is read no further.
 * A worker's connections with such a request are in its list `held`, by the time at which they go
 * on, and count among those with a deadline: a worker without them does nothing for them.
 */
#ifndef SERVER_CONNECTION_HELD_H
#define SERVER_CONNECTION_HELD_H

#include "server/limit/limits.h"

#include "nbd/request.h"

#include <stdbool.h>

struct conn;
struct limiter;
struct worker;

/* The connection is under these limits from now on, by limit_scope; each may be NULL; holds the
 * limiters.  What is held back goes on, or waits anew; then it keeps what it has paid already. */
void
held_set_limiters(struct conn *conn, struct limiter *const limiters[LIMIT_SCOPES]);

/* Whether the request may be carried out now; then the connection pays for it.  Otherwise it is
 * held back.  For a connection with a limiter. */
bool
held_admit(struct conn *conn, const struct nbd_request *nbd);

/* A request that was admitted could not be carried out, and will be tried again. */
void
held_refund(struct conn *conn, const struct nbd_request *nbd);

/* Whether a request is still to be held back.  While the connection drains, none is. */
bool
held_waits(struct conn *conn);

/* The connection ends. */
void
held_leave(struct conn *conn);

/* A connection whose time has come, which is held no longer: that of the oldest ticket; NULL: there
 * is none. */
struct conn *
held_next(struct worker *worker);

/* Milliseconds until there is one, or until deadlines are looked at: 0 ... 1000.  For worker->held
 * that is not NULL. */
int
held_timeout(const struct worker *worker);

#endif
