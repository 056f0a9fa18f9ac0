/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection: negotiates, then takes requests in batches, and sends the replies of a batch
 * together.  It is its worker's, whose thread alone touches it.
 */
#ifndef SERVER_SERVE_CONN_H
#define SERVER_SERVE_CONN_H

#include <stddef.h>
#include <time.h>

struct conn;
struct worker;

/* Bytes that malloc() gives for one. */
size_t
conn_memory(void);

/* Takes over a connected socket. NULL: out of memory. */
struct conn *
conn_new(int fd, const char *peer);

/* The connection begins, on the worker's thread. */
void
conn_start(struct conn *conn, struct worker *worker);

/* Sends replies that are ready, looks at requests that had to wait, and ends the connection (and
 * frees it) when it is over. */
void
conn_settle(struct conn *conn);

/* Ends a connection that negotiates or lingers for too long. `now`: CLOCK_MONOTONIC, seconds. */
void
conn_check_deadline(struct conn *conn, time_t now);

#endif
