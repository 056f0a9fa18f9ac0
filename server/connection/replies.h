/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The replies to a connection's requests: written when a request has its result, and sent together
 * at the end of the turn.
 */
#ifndef SERVER_CONNECTION_REPLIES_H
#define SERVER_CONNECTION_REPLIES_H

#include "nbd/reply.h"

struct conn;
struct request;

#define REPLY_NO_MEMORY "the server is out of memory"

/* Writes the reply that tells `result` (0 or -errno), and adds it. */
void
reply_result(struct request *request, int result);

/* The same for a read that has succeeded, and whose first `sent` bytes (less than all) were sent
 * early. */
void
reply_rest(struct request *request, uint32_t sent);

/* Writes an error's reply, and adds it.  `message` (for clients that take one) or NULL. */
void
reply_error(struct request *request, enum nbd_error error, const char *message);

/* Writes an error's reply without adding it. */
void
reply_write_error(struct request *request, enum nbd_error error, const char *message);

/* Adds a written reply to those that are ready. */
void
reply_add(struct request *request);

/* Starts to send the ready replies, unless the connection is sending. */
void
replies_send(struct conn *conn);

/* Finishes the requests whose replies were sent, or can't be. */
void
replies_sent(struct conn *conn);

/* Finishes the requests with ready replies, which are not sent. */
void
replies_drop(struct conn *conn);

#endif
