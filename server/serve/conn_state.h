/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connection has, and how its end begins.  It is its worker's, whose thread alone touches
 * it.
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

	time_t deadline; /* CLOCK_MONOTONIC, seconds; while it negotiates, or lingers */
	bool closing;    /* no request is taken any more */
	bool lost;       /* replies can't be sent any more */
	bool unheard; /* nor can they, but all that was asked for is carried out: see peer_left() */
	bool ended;   /* by the client: nothing comes any more */
	bool took_leave; /* so will it be, after a goodbye that has come: see peer_gave_up() */
	uint64_t there; /* CLOCK_BOOTTIME, ns: the client had not given up then; 0: nothing is known
			 */
	uint64_t changes;         /* of its own, that have begun, as traffic_change() counts */
	uint64_t others_changes;  /* of its image, that had begun when it was last asked for, and
				     there, or before */
	uint64_t receiving_since; /* the same clock: when the present receiving began, or before */
	uint64_t received_since;  /* the same clock: when the one before it began */
	bool all_received;        /* by that one, of what there was */
	bool lingering;           /* all is sent; what comes is thrown away */
	bool draining;            /* ends when all that has come is answered */
	bool refusing;        /* requests that were not taken before are answered with an error */
	bool stalled;         /* waits for a buffer, or for a request to be over */
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

/* Takes no more requests; ends when those under way are answered. With `now`, they aren't answered.
 */
void
conn_end(struct conn *conn, bool now);

/* Ends a connection that exchanges requests: what its client has sent so far is carried out, what
 * it sends then is refused.  With `refuse`, only what has begun is carried out. */
void
conn_drain(struct conn *conn, bool refuse);

/* A reason for that. */
#define CONN_GAVE_UP "gave up on this connection: what waited on it is dropped"

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
