/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker: a thread with an event loop, its connections, its contexts of the images that they use,
 * and its buffers.  Workers share nothing that is written for a request.
 */
#ifndef SERVER_SERVE_WORKER_H
#define SERVER_SERVE_WORKER_H

#include "server/serve/worker_state.h"

/* Starts the thread; returns when its loop runs.  `number`: of all workers, from 0.  0 or -errno.
 */
int
worker_start(struct worker *worker, unsigned int number, const struct worker_config *config);

/* Gives it a connected socket, which it owns from now on. `peer` (a text for the log) is copied. */
int
worker_give(struct worker *worker, int fd, const char *peer);

/* Has message->deliver() called on the worker's thread soon; not at all if it ends before. */
void
worker_post(struct worker *worker, struct worker_message *message);

/* Tells it to end its connections in this way; a way that was told before only becomes stricter. It
 * still does what it is posted. */
void
worker_stop(struct worker *worker, enum worker_end end);

/* Waits until no connection is left, and ends it. */
void
worker_join(struct worker *worker);

#endif
