/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker: a thread with an event loop, its connections, its contexts of the images that they use,
 * and its buffers. Workers share nothing that is written for a request.
 */
#ifndef SERVER_WORKER_WORKER_H
#define SERVER_WORKER_WORKER_H

#include "server/connection/worker_state.h"

/* Starts the thread, and returns when its loop runs. `number`: the worker's, from 0.  0 or -errno.
 */
int
worker_start(struct worker *worker, unsigned int number, const struct worker_config *config);

/* Gives the worker a connected socket and its client's identity, which it then owns; 0 or -ENOMEM.
 */
int
worker_give(struct worker *worker, int fd, struct identity *identity);

/* Calls message->deliver() on the worker's thread soon; never, if the worker ends before. */
void
worker_post(struct worker *worker, struct worker_message *message);

/* Ends the worker's connections in this way, unless a stricter one was chosen before. Messages are
 * still delivered. */
void
worker_stop(struct worker *worker, enum worker_end end);

/* Has `call` called on the threads of all workers, since only there their connections may be looked
 * at, and waits until it has returned on each. Not on a worker's thread. 0 or -ENOMEM. */
int
workers_call(struct worker *workers, unsigned int count,
	     void (*call)(struct worker *worker, void *data), void *data);

/* Waits until no connection is left, and ends the worker. */
void
worker_join(struct worker *worker);

#endif
