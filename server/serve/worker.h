/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker: a thread with an event loop, its connections, its contexts of the images that they use,
 * and its buffers.  Workers share nothing that is written for a request.
 */
#ifndef SERVER_SERVE_WORKER_H
#define SERVER_SERVE_WORKER_H

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
struct ioctx;
struct request;
struct served;
struct traffic;

/* How far its end has come. */
enum worker_end {
	WORKER_SERVES,
	WORKER_LEAVES,  /* no request is taken any more; those under way are answered */
	WORKER_DRAINS,  /* what had come is carried out and answered; what comes then is refused */
	WORKER_REFUSES, /* so is all that has not begun */
	WORKER_ABORTS,  /* nothing is answered any more */
};

/* What all connections of a server have in common; const while workers run. */
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

/* A worker's context of an image. */
struct worker_context {
	struct served *served;
	struct ioctx *ctx;
	struct traffic *traffic; /* the part of the image's that this worker writes */
	struct loop_op event;
	struct worker *worker;
	bool submitted;                /* operations that ioctx_run() has not seen yet */
	bool leaving;                  /* to be freed when `event` is not under way any more */
	bool dense;                    /* the image had no holes when holes.c last looked */
	uint64_t data_start, data_end; /* of the image: no hole was there then */
	unsigned int large_reads;      /* in which it could have looked for holes */
	struct worker_context *next;
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
	int event; /* eventfd: there is something in what the mutex guards */

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

/* On the worker's thread: frees its context of an image that no connection uses and none will use
 * again, then calls config->forgotten(). */
void
worker_forget(struct worker *worker, struct served *served);

/* For connections, on the worker's thread: */

/* The worker's context of an image, made on first use; NULL: it can't be (said in the log). */
struct worker_context *
worker_context(struct worker *worker, struct served *served);

/* CLOCK_BOOTTIME, ns: now. */
uint64_t
worker_clock(void);

/* The same clock: when what is being completed now was found complete.  The clock is read at most
 * once for all that came together. */
uint64_t
worker_now(struct worker *worker);

/* An event of the worker's or of a context could not be waited for (-errno, said in the log): it is
 * tried again soon. */
void
worker_poll_failed(struct worker *worker, int result);

/* A request structure, or NULL: out of memory. */
struct request *
worker_request_take(struct worker *worker);
void
worker_request_give(struct worker *worker, struct request *request);

/* Has conn_settle() called at the end of this turn. */
void
worker_conn_dirty(struct worker *worker, struct conn *conn);

#endif
