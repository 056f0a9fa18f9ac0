/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection: negotiates, then takes requests in batches, and sends the replies of a batch
 * together.  Only its worker's thread uses it.
 */
#ifndef SERVER_CONNECTION_CONN_H
#define SERVER_CONNECTION_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct conn;
struct identity;
struct worker;

/* Bytes of heap memory that a connection takes, with or without TLS. */
size_t
conn_memory(bool tls);

/* Takes over a connected socket and its client's identity, unless it returns NULL: out of memory.
 */
struct conn *
conn_new(int fd, struct identity *identity);

/* Begins the handshake, on the worker's thread. */
void
conn_start(struct conn *conn, struct worker *worker);

/* Sends the ready replies, goes on with requests that had to wait, and frees the connection when it
 * has ended. */
void
conn_settle(struct conn *conn);

/* Goes on with a request that had to wait, for a stalled connection. */
void
conn_resume(struct conn *conn);

#endif
