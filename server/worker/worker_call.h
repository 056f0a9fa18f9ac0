/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call on the thread of each worker: only there may its connections be looked at.
 */
#ifndef SERVER_WORKER_WORKER_CALL_H
#define SERVER_WORKER_WORKER_CALL_H

struct worker;

/* Has `call` called on all threads, and waits until it has returned on each.  Not on a worker's
 * thread.  0 or -ENOMEM. */
int
workers_call(struct worker *workers, unsigned int count,
	     void (*call)(struct worker *worker, void *data), void *data);

#endif
