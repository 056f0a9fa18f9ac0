/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a worker: its event loop, connections, contexts of images, buffers and mailbox.  Its
 * connections and contexts use this; worker.h has the functions for other threads.
 */
#ifndef SERVER_SERVE_WORKER_STATE_H
#define SERVER_SERVE_WORKER_STATE_H

#include "server/loop/loop.h"
#include "server/loop/spin.h"
#include "server/serve/buffers.h"

#include "nbd/handshake.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct conn;
struct request;
struct served;
struct worker;
struct worker_context;

/* How far its end has come. */
enum worker_end {
	WORKER_SERVES,
	WORKER_LEAVES,  /* no request is taken any more; those under way are answered */
	WORKER_DRAINS,  /* requests that were sent are carried out; later ones are refused */
	WORKER_REFUSES, /* so is all that has not begun */
	WORKER_ABORTS,  /* nothing is answered any more */
};

/* Settings that all connections of a server share; const while workers run. */
struct worker_config {
	struct nbd_handshake_config handshake;
	/* A connection has let go of its export. */
	void (*left)(void *data, struct served *served);
	/* A connection is over. */
	void (*closed)(void *data);
	/* The worker knows no longer of an export: see worker_forget(). */
	void (*forgotten)(void *data, struct served *served);
	void *data;
	unsigned int workers; /* how many there are */
	bool use_ring;        /* io_uring works here; a worker that gets no ring uses epoll */
	unsigned int handshake_limit; /* seconds */
	unsigned int stuck_limit;     /* seconds */
	unsigned int poll_max_us;     /* see spin.h */
	size_t memory_limit;          /* bytes of buffers, per worker */
	bool reserve; /* buffers, and contexts of all exports, are made beforehand */
	/* For that: the exports, by their place among them. NULL: there are no more. */
	struct served *(*served_at)(void *data, size_t n);
};

/* Something to be done on the worker's thread, embedded by its owner. */
struct worker_message {
	void (*deliver)(struct worker *worker, struct worker_message *message);
	void *data;
	struct worker_message *next; /* the worker's */
};

struct worker {
	/* In lines of its own: they stand side by side. */
	alignas(64) const struct worker_config *config;
	unsigned int number; /* of all workers, from 0 */
	pthread_t thread;
	int event; /* eventfd: there is mail */

	pthread_mutex_t mutex; /* guards the mailbox, which follows */
	struct conn *arrived;
	struct worker_message *messages;
	enum worker_end end;
	bool awaited; /* worker_join() was called */
	pthread_cond_t started_changed;
	bool started;
	int start_result; /* 0 or -errno */

	/* The thread's own. */
	struct loop *loop;
	struct spin spin;
	struct loop_op event_op;
	struct worker_context *contexts;
	struct worker_context *busy; /* contexts with ios under way, or marked to run: a turn looks
					at no others */
	struct buffers buffers;
	struct conn *conns;
	struct conn *dirty;   /* with replies to send, or requests to look at again */
	struct request *idle; /* requests that are not in use */
	struct request *request_slabs;
	unsigned int deadlines; /* connections that have one */
	uint64_t now;           /* see worker_now(); 0: not read yet */
	time_t checked; /* CLOCK_MONOTONIC, seconds: when they, or stuck clients, were looked for */
	bool starved;   /* a connection is stalled for want of memory */
	bool leaving;   /* a context is */
	bool unpolled;  /* an event is not waited for, but should be */
	bool over;      /* no event is waited for any more */
	bool stopping;  /* it ends when no connection is left */
	_Atomic unsigned int connections; /* for the status */
};

/* CLOCK_BOOTTIME, ns: now. */
uint64_t
worker_clock(void);

/* The same clock: when the completions of this turn were found.  The clock is read at most once for
 * all of them.  On the worker's thread. */
static inline uint64_t
worker_now(struct worker *worker)
{
	if (!worker->now)
		worker->now = worker_clock();
	return worker->now;
}

/* An event of the worker's or of a context could not be waited for (-errno, said in the log): it is
 * tried again soon. */
void
worker_poll_failed(struct worker *worker, int result);

#endif
