/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection: a client's socket from the greeting to its close, on the thread of one worker, the
 * only one that touches it. It is composed of
 *
 *     transport   the socket: receives and sends, with or without TLS
 *     intake      what has come and is not taken yet, and where the rest is to go
 *     queue       the requests in flight, and their image
 *     outbox      what is to be sent
 *     life        its stage
 *
 * Here are its state and the beginning of its end; conn_run.h moves it.
 */
#ifndef SERVER_CONNECTION_CONN_H
#define SERVER_CONNECTION_CONN_H

#include "server/connection/intake.h"
#include "server/connection/outbox.h"
#include "server/connection/transport.h"
#include "server/limit/limiter.h"
#include "server/request/request.h"
#include "server/connection/worker_state.h"

#include "common/container_of.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct conn_negotiation;
struct export_client;
struct identity;
struct offer;
struct worker_context;

/* Most requests of a connection in flight; the kernel's client sends up to 128. */
#define CONN_REQUESTS 256

/*
 * The stage of a connection's life. It never goes back:
 *
 *     NEGOTIATES -> SERVES    the handshake has ended, and its output is sent
 *     SERVES     -> DRAINS    conn_drain()
 *     SERVES     -> REFUSES   conn_refuse_requests()
 *     DRAINS     -> REFUSES   the same, or the socket has no unread bytes
 *     REFUSES    -> CLOSES    no request is in flight
 *     any before -> CLOSES    conn_close() or conn_abort()
 *     CLOSES     -> LINGERS   all is answered, over TCP, and the client has not closed its end
 *
 * From CLOSES or LINGERS it is freed. A connection that is lost CLOSES or LINGERS. In CLOSES and
 * LINGERS, conn->negotiation still exists if the handshake did not finish.
 */
enum conn_life {
	CONN_NEGOTIATES,
	CONN_SERVES,
	CONN_DRAINS,  /* requests in its input or socket are carried out; when none is left there,
			 it REFUSES */
	CONN_REFUSES, /* further requests are answered with an error, until none is in flight */
	CONN_CLOSES,  /* no request is taken; it ends when those in flight have finished */
	CONN_LINGERS, /* all is sent; input is discarded until the client closes its end */
};

/* When the client was known not to have given up; see peer.h. Times: CLOCK_BOOTTIME, ns. */
struct conn_presence {
	uint64_t seen;            /* it had not given up then; 0: unknown */
	bool said_disc;           /* it has sent a disconnect request, which may still be unread */
	uint64_t changes;         /* its own that have begun, as traffic_change() counts */
	uint64_t others_changes;  /* changes by others that had begun at `seen`, or before */
	uint64_t receiving_since; /* the present receive began then, or later */
	uint64_t received_since;  /* the same of the receive before */
	bool all_received;        /* the receive before left nothing unread */
};

/* What the connection has of the budgets of its export and of its client, see throttle.h. */
struct conn_throttle {
	struct limiter *limiters[LIMIT_SCOPES];            /* held; NULL: no limit */
	struct share shares[LIMIT_SCOPES][LIMIT_KINDS][2]; /* as in struct limiter */
	unsigned int room;  /* requests below this number need no further look: CONN_REQUESTS; 0 if
			      there are limits */
	bool waits;         /* a request is not admitted yet; then also: */
	unsigned int write; /* 1 if it is a change, else 0 */
	uint64_t cost[LIMIT_KINDS];   /* of it */
	bool throttled;               /* it waits for its time; then also: */
	uint64_t since;               /* CLOCK_BOOTTIME, ns */
	uint64_t due;                 /* the same: until then */
	struct conn *previous, *next; /* in the worker's list */
};

/* The client's progress, see stall.h: in one direction, the data of one write, or the replies of
 * one send. */
struct conn_progress {
	bool waits;           /* bytes are to be moved; cleared when all are */
	uint64_t begin;       /* bytes that had been moved when the time began */
	unsigned int seconds; /* since then, counted by stall_check(); begins again when enough
				 bytes were moved */
};

struct conn {
	struct worker *worker;
	struct identity *identity; /* of the client; owned */
	struct conn *next, **link; /* in the worker's list */
	struct conn *next_dirty;
	bool dirty;

	enum conn_life life;
	bool end_of_input;   /* the client has closed its end, or the socket has failed */
	bool paused;         /* its input waits for a buffer, for the end of a request, or for its
			      time: see throttle.h */
	time_t paused_since; /* CLOCK_MONOTONIC, seconds: the first pause since all input was
				taken; 0: none */
	time_t deadline;     /* the same; while it negotiates, or lingers */

	struct conn_negotiation *negotiation; /* NULL: requests are exchanged */
	struct offer *offer;
	struct export_client *client; /* of the offer's export: how it counts there */
	struct worker_context *context;

	struct transport transport;
	struct intake intake;
	struct request_queue queue;
	struct outbox outbox;
	struct conn_presence presence;
	struct conn_throttle throttle;
	struct conn_progress data, replies;
	char security[160]; /* for the status: version and cipher of TLS, and where it is computed;
			       "": there is no TLS */
};

static inline struct conn *
conn_of(const struct request *request)
{
	return container_of(request->queue, struct conn, queue);
}

static inline bool
conn_is_closing(const struct conn *conn)
{
	return conn->life >= CONN_CLOSES;
}

/* Returns whether no reply can be sent any more; waiting changes are dropped. */
static inline bool
conn_is_lost(const struct conn *conn)
{
	return conn->transport.lost;
}

/* Has conn_run_settle() called at the end of this turn. */
static inline void
conn_mark_dirty(struct conn *conn)
{
	if (conn->dirty)
		return;
	conn->dirty = true;
	conn->next_dirty = conn->worker->dirty;
	conn->worker->dirty = conn;
}

/* Takes no more requests; the connection ends when those in flight are answered. */
void
conn_close(struct conn *conn);

/* Takes no more requests and sends no more replies; the connection ends when the requests in flight
 * have finished. */
void
conn_abort(struct conn *conn);

/* Ends a connection that has negotiated: requests that its client has sent so far are carried out,
 * later ones are answered with an error. */
void
conn_drain(struct conn *conn);

/* The same, but only requests that have begun are carried out. */
void
conn_refuse_requests(struct conn *conn);

/* Lets the input wait. */
void
conn_pause(struct conn *conn);

/* The same, for memory or for the end of a request. */
void
conn_starve(struct conn *conn);

/* A reason to abort or close it. */
#define CONN_GAVE_UP "gave up on this connection: requests that waited on it are dropped"

/* Logs why a client is disconnected, with a rate limit. */
void
conn_warn(const struct conn *conn, const char *reason);

/* Aborts the connection if it has negotiated or lingered for too long. `now`: CLOCK_MONOTONIC,
 * seconds. */
void
conn_check_deadline(struct conn *conn, time_t now);

#endif
