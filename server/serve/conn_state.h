/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a connection, and how its end begins.  Only the thread of its worker touches it.
 */
#ifndef SERVER_SERVE_CONN_STATE_H
#define SERVER_SERVE_CONN_STATE_H

#include "server/serve/worker_state.h"

#include "nbd/session.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>
#include <time.h>

struct conn_negotiation;
struct request;
struct served;
struct worker_context;

/* Requests of a connection that are under way at once; the kernel's client sends up to 128. */
#define CONN_REQUESTS 256

/* Bytes that are received at once: a batch of requests. */
#define CONN_INPUT ((size_t)64 << 10)

/* Parts of replies that are sent at once: most have one or two. */
#define CONN_PARTS 128

/* One direction: the data of one write that comes, or the replies that were sent together. */
struct stuck_way {
	bool waits;           /* there is something to be moved; cleared when that is done */
	uint64_t begin;       /* bytes that had been moved when the time began */
	unsigned int seconds; /* since then, as far as somebody looked; it begins anew when enough
				 was moved */
};

/* How fast its client moves them: see stuck.h. */
struct stuck {
	struct stuck_way data, replies;
};

/*
 * How far a connection's life has come.  It never goes back:
 *
 *     NEGOTIATES -> SERVES    the handshake is over, and its output sent
 *     SERVES     -> DRAINS    conn_drain()
 *     SERVES     -> REFUSES   conn_refuse_requests()
 *     DRAINS     -> REFUSES   the same, or nothing is left in the socket
 *     REFUSES    -> CLOSES    no request is under way
 *     any before -> CLOSES    conn_close() or conn_abort()
 *     CLOSES     -> LINGERS   all is answered, over TCP, and the client has not closed its end
 *
 * From CLOSES or LINGERS it is freed.  A connection that is lost CLOSES or LINGERS.  In CLOSES and
 * LINGERS, conn->negotiation is still there if requests were never exchanged.
 */
enum conn_life {
	CONN_NEGOTIATES,
	CONN_SERVES,
	CONN_DRAINS,  /* requests in its input or socket are carried out; when none is left there,
			 it REFUSES */
	CONN_REFUSES, /* further requests are answered with an error, until none is under way */
	CONN_CLOSES,  /* no request is taken; it ends when those under way are over */
	CONN_LINGERS, /* all is sent; what the client sends is thrown away until it closes its end
		       */
};

/* When a client is known not to have given up; see peer.h.  Times: CLOCK_BOOTTIME, ns. */
struct conn_presence {
	uint64_t seen;    /* it had not given up then; 0: nothing is known */
	bool said_disc;   /* its last request asks for the end, or an earlier one has: see peer.c */
	uint64_t changes; /* of its own, that have begun, as traffic_change() counts */
	uint64_t others_changes; /* of its image, that had begun when the client was last asked for,
				    and there, or before */
	uint64_t receiving_since; /* when the present receiving began, or before */
	uint64_t received_since;  /* when the one before it began */
	bool all_received;        /* by that one, of what there was */
};

struct conn {
	struct worker *worker;
	int fd;
	uint64_t id; /* of all that the process ever had, from 1 */
	char peer[64];
	struct conn *next, **link; /* in the worker's list */
	struct conn *next_dirty;
	bool dirty;

	struct conn_negotiation *negotiation; /* NULL: requests are exchanged */
	struct nbd_session session;
	struct served *served;
	struct worker_context *context;

	enum conn_life life;
	time_t deadline;   /* CLOCK_MONOTONIC, seconds; while it negotiates, or lingers */
	bool lost;         /* replies can't be sent any more, and changes that wait are dropped */
	bool unheard;      /* nor can they, but all requests are carried out: see peer_left() */
	bool end_of_input; /* the client has closed its end, or the socket has failed */
	struct conn_presence presence;
	bool stalled;         /* its input waits for a buffer, or for a request to be over */
	time_t stalled_since; /* CLOCK_MONOTONIC, seconds: the first stall since nothing was unread;
				 0: none */

	struct loop_op recv_op;
	uint8_t *input; /* CONN_INPUT bytes */
	size_t input_start, input_end;
	uint64_t to_drop;        /* bytes of a refused request's payload that are still to come */
	struct request *refused; /* which is answered then, or NULL */
	struct request *filling; /* whose payload comes straight into its buffer */
	size_t filled;           /* bytes of it that are there */

	unsigned int requests;            /* under way: their reply is not sent yet */
	uint64_t read_bytes, write_bytes; /* of requests that succeeded */
	unsigned int buffers;             /* that they have */
	uint64_t bytes_in, bytes_out;     /* over the socket, as far as it told */
	struct stuck stuck;
	struct request *hungry, **hungry_tail; /* reads that wait for a buffer */
	struct request *ready, **ready_tail;   /* with a reply to send */

	struct loop_op send_op;
	struct request *sending;
	struct msghdr message;
	struct iovec iov[CONN_PARTS];
};

static inline bool
conn_is_closing(const struct conn *conn)
{
	return conn->life >= CONN_CLOSES;
}

/* Takes no more requests; ends when those under way are answered. */
void
conn_close(struct conn *conn);

/* Takes no more requests and sends no more replies; ends when those under way are over. */
void
conn_abort(struct conn *conn);

/* Ends a connection that exchanges requests: those that its client has sent so far are carried out,
 * later ones are answered with an error. */
void
conn_drain(struct conn *conn);

/* The same, but only requests that have begun are carried out. */
void
conn_refuse_requests(struct conn *conn);

/* A reason to abort or close it. */
#define CONN_GAVE_UP "gave up on this connection: requests that waited on it are dropped"

/* Tells the log why a client is disconnected; not each time when it comes back again and again. */
void
conn_warn(const struct conn *conn, const char *reason);

/* Has conn_settle() called at the end of this turn. */
static inline void
conn_mark_dirty(struct conn *conn)
{
	if (conn->dirty)
		return;
	conn->dirty = true;
	conn->next_dirty = conn->worker->dirty;
	conn->worker->dirty = conn;
}

/* Its input waits, for memory or for a request to be over. */
void
conn_stall(struct conn *conn);

#endif
