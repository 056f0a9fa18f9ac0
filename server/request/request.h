/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Begins and finishes requests, whose structures and buffers are their worker's.
 */
#ifndef SERVER_REQUEST_REQUEST_H
#define SERVER_REQUEST_REQUEST_H

#include "server/request/request_state.h"

struct worker;

/* Begins a request, which has no buffer yet.  NULL: out of memory. */
struct request *
request_begin(struct conn *conn, const struct nbd_request *nbd);

/* Takes a buffer of `length` bytes.  False: no memory now.  A connection without a buffer gets one
 * even if others have taken all, since a client that never reads its replies keeps its buffers for
 * ever. */
bool
request_take_buffer(struct request *request, size_t length);

/* Ends a request whose reply was sent, or can't be.  The buffer is given back with the last member
 * of a merged request. */
void
request_finish(struct request *request);

/* Keeps the request and its buffer until request_leave(), even if it is finished before. */
void
request_keep(struct request *request);

void
request_leave(struct request *request);

/* Runs `work` on a thread of the image's helpers, then `done` on the worker's. */
void
request_ask_helper(struct request *request, void (*work)(struct helper_job *job),
		   void (*done)(struct helper_job *job));

/* Frees the request structures of a worker, none of which is in use. */
void
request_free_all(struct worker *worker);

#endif
