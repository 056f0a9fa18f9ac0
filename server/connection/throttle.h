/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests over a limit are throttled: they stay in the connection's input, which is read no
 * further. A worker's connections with such a request are in its list `throttled`, by the time at
 * which they go on, and count among those with a deadline: a worker without them does nothing for
 * them.
 */
#ifndef SERVER_CONNECTION_THROTTLE_H
#define SERVER_CONNECTION_THROTTLE_H

#include "server/limit/limits.h"

#include "nbd/request.h"

#include <stdbool.h>

struct conn;
struct limiter;
struct worker;

/* The connection is under these limits from now on, by limit_scope; each may be NULL; holds the
 * limiters. A throttled request goes on, or waits anew; then it keeps what it has paid already. */
void
throttle_set_limiters(struct conn *conn, struct limiter *const limiters[LIMIT_SCOPES]);

/* Returns whether the request may be carried out now; then the connection pays for it. Otherwise it
 * is throttled. For a connection with a limiter. */
bool
throttle_admit(struct conn *conn, const struct nbd_request *nbd);

/* A request that was admitted could not be carried out, and will be tried again. */
void
throttle_refund(struct conn *conn, const struct nbd_request *nbd);

/* Returns whether a request is still throttled. While the connection drains, none is. */
bool
throttle_waits(struct conn *conn);

/* The connection ends. */
void
throttle_leave(struct conn *conn);

/* Returns a connection whose time has come, which is throttled no longer: that of the oldest
 * ticket; NULL: there is none. */
struct conn *
throttle_next(struct worker *worker);

/* Milliseconds until there is one, or until deadlines are looked at: 0 ... 1000. For
 * worker->throttled that is not NULL. */
int
throttle_timeout(const struct worker *worker);

#endif
