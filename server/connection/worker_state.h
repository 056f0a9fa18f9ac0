/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a worker: its event loop, connections, contexts of images, buffers and mailbox. Its
 * connections and contexts use this; worker.h has the functions for other threads.
 */
#ifndef SERVER_CONNECTION_WORKER_STATE_H
#define SERVER_CONNECTION_WORKER_STATE_H

#include "server/limit/limits.h"
#include "server/loop/loop.h"
#include "server/loop/spin.h"
#include "server/request/request.h"

#include "nbd/handshake.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct export_client;
struct conn;
struct exports;
struct idle_output;
struct handshakes;
struct identity;
struct limiter;
struct look;
struct offer;
struct worker;
struct worker_context;

/* How a worker ends its connections; each way is stricter than the one before. */
enum worker_end {
	WORKER_SERVES,
	WORKER_LEAVES,  /* no more requests are taken; those in flight are answered */
	WORKER_DRAINS,  /* requests that were sent are carried out; later ones are refused */
	WORKER_REFUSES, /* all requests that have not begun are refused */
	WORKER_ABORTS,  /* nothing is answered any more */
};

/* Which TLS sessions the kernel takes over. */
enum kernel_tls {
	KERNEL_TLS_OFF,
	KERNEL_TLS_AUTO, /* those whose keys never change */
	KERNEL_TLS_ON,
};

/* Settings that all connections of a server share; const while workers run. */
struct worker_config {
	struct nbd_handshake_config handshake; /* .data: unused, see struct applicant */
	struct exports *exports;               /* for .handshake, and for the functions below */
	/* A connection of the client to the offer has ended. */
	void (*left)(struct exports *exports, struct offer *offer, struct export_client *client);
	/* The worker has forgotten the offer: see worker_forget(). */
	void (*forgotten)(struct exports *exports, struct offer *offer);
	/* The n-th offer, for .reserve; NULL: there are fewer. */
	struct offer *(*offer_at)(struct exports *exports, size_t n);
	/* Begins a look (server/connection/look.h). 0 or -errno. NULL: no applicant has to wait.
	 */
	int (*look)(struct exports *exports, struct look *look);
	/* See exports_limiters(). */
	void (*limiters)(struct exports *exports, struct offer *offer, struct export_client *client,
			 struct limiter *limiters[LIMIT_SCOPES]);
	/* A connection has ended, with or without an offer. */
	void (*closed)(void *data);
	void *data;
	struct handshakes *handshakes; /* of TLS; NULL: there is none */
	enum kernel_tls kernel_tls;
	bool tls_spares_unix; /* TLS is required, but not on unix sockets */
	bool use_ring;        /* io_uring works here; a worker that gets no ring uses epoll */
	unsigned int handshake_limit; /* seconds */
	unsigned int stuck_limit;     /* seconds */
	unsigned int poll_max_us;     /* see spin.h */
	size_t memory_limit;          /* bytes of buffers, per worker */
	bool reserve; /* buffers, and contexts for all exports, are allocated at the start */
};

/* A call on the worker's thread; its owner embeds it. */
struct worker_message {
	void (*deliver)(struct worker *worker, struct worker_message *message);
	void *data;
	struct worker_message *next; /* the worker's */
};

/* Buffers for encrypted bytes that no connection uses: given back to malloc(), each would cost the
 * kernel's work for fresh pages when it is taken again. */
struct tls_outputs {
	struct idle_output *first;
	unsigned int count;
};

struct worker {
	/* On cache lines of its own: workers are neighbours in an array. */
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
	bool submitted;              /* one of them may be marked */
	struct request_pool pool;
	struct tls_outputs tls_outputs; /* see tls_transport.c */
	struct conn *conns;
	struct conn *dirty;     /* with replies to send, or requests to look at again */
	unsigned int deadlines; /* connections with a deadline, and throttled ones */
	unsigned int looks;     /* under way, whether or not somebody still waits for them */
	time_t checked;         /* CLOCK_MONOTONIC, seconds: the last check of deadlines and stalled
			   clients */
	struct conn *throttled, *throttled_last; /* see throttle.h */
	bool starved;                            /* a connection waits for memory */
	bool hurried;  /* something waits for the end of a quiet send: the next turn does not sleep
		       */
	bool leaving;  /* a context is to be freed */
	bool unpolled; /* the poll of an event failed, and is to be tried again */
	bool over;     /* events are not polled any more */
	bool stopping; /* the worker ends when no connection is left */
	_Atomic unsigned int connections; /* for the status */
};

#endif
