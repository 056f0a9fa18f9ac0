/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Begins and finishes requests, whose structures and buffers are their worker's.
 */
#ifndef SERVER_SERVE_REQUEST_H
#define SERVER_SERVE_REQUEST_H

#include "server/serve/request_state.h"

struct worker;

/* A request of the connection that counts as under way, with no buffer yet.  NULL: out of memory.
 */
struct request *
request_begin(struct conn *conn, const struct nbd_request *nbd);

/* Takes a buffer of `length` bytes.  False: there is none now.  A connection that has none gets one
 * even when others have taken all: a client that takes none of its replies keeps its buffers for
 * ever. */
bool
request_take_buffer(struct request *request, size_t length);

/* Its reply is sent, or never will be.  The buffer is freed with the last member. */
void
request_finish(struct request *request);

/* Frees the request structures of a worker, none of which is in use. */
void
request_free_all(struct worker *worker);

#endif
