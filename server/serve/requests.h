/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the bytes that a connection received to operations on its image, and from their results to
 * replies.
 */
#ifndef SERVER_SERVE_REQUESTS_H
#define SERVER_SERVE_REQUESTS_H

#include <stddef.h>

struct conn;
struct request;

/* Takes what the connection's input holds, as far as there is room for it. */
void
requests_take(struct conn *conn);

/* The payload that the connection received straight into conn->filling is complete. */
void
requests_filled(struct conn *conn);

/* Goes on with reads that wait for memory, or lets go of them when the connection is lost. */
void
requests_feed(struct conn *conn);

/* The reply is sent, or never will be. */
void
requests_over(struct conn *conn, struct request *request);

#endif
