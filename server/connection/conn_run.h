/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What moves a connection (conn.h): it negotiates, then takes requests in batches, and sends the
 * replies of a batch together. Only its worker's thread calls these functions, but for
 * conn_run_new().
 *
 *     conn_run_on_input() -> intake -> negotiation, or dispatch -> image -> outbox
 *     conn_run_settle() -> outbox -> conn_run_on_sent(); goes on with what had to wait; ends
 */
#ifndef SERVER_CONNECTION_CONN_RUN_H
#define SERVER_CONNECTION_CONN_RUN_H

#include <stdbool.h>
#include <stddef.h>

struct conn;
struct identity;
struct worker;

/* Bytes of heap memory that a connection takes, with or without TLS. */
size_t
conn_run_memory(bool tls);

/* Takes over a connected socket and its client's identity, unless it returns NULL: out of memory.
 */
struct conn *
conn_run_new(int fd, struct identity *identity);

/* Begins the handshake, on the worker's thread. */
void
conn_run_start(struct conn *conn, struct worker *worker);

/* Sends the ready replies, goes on with requests that had to wait, and frees the connection when it
 * has ended. */
void
conn_run_settle(struct conn *conn);

/* Goes on with a request that had to wait, for a paused connection. */
void
conn_run_resume(struct conn *conn);

#endif
