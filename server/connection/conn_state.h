/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a connection, and how its end begins.  Only the thread of its worker touches it.
 */
#ifndef SERVER_CONNECTION_CONN_STATE_H
#define SERVER_CONNECTION_CONN_STATE_H

#include "server/limit/limiter.h"
#include "server/worker/worker_state.h"

#include "nbd/reply.h"
#include "nbd/session.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>
#include <time.h>

struct export_client;
struct conn_negotiation;
struct conn_tls;
struct identity;
struct request;
struct offer;
struct worker_context;

/* Most requests of a connection in flight; the kernel's client sends up to 128. */
#define CONN_REQUESTS 256

/* Most bytes in one receive: a batch of requests. */
#define CONN_INPUT ((size_t)64 << 10)

/* Most parts of replies in one send; most replies have one or two. */
#define CONN_PARTS 128

/* One direction: the data of one write, or the replies of one send. */
struct stuck_way {
	bool waits;           /* bytes are to be moved; cleared when all are */
	uint64_t begin;       /* bytes that had been moved when the time began */
	unsigned int seconds; /* since then, counted by stuck_check(); begins again when enough
				 bytes were moved */
};

/* The client's progress in both: see stuck.h. */
struct stuck {
	struct stuck_way data, replies;
};

/*
 * The stage of a connection's life.  It never goes back:
 *
 *     NEGOTIATES -> SERVES    the handshake has ended, and its output is sent
 *     SERVES     -> DRAINS    conn_drain()
 *     SERVES     -> REFUSES   conn_refuse_requests()
 *     DRAINS     -> REFUSES   the same, or the socket has no unread bytes
 *     REFUSES    -> CLOSES    no request is in flight
 *     any before -> CLOSES    conn_close() or conn_abort()
 *     CLOSES     -> LINGERS   all is answered, over TCP, and the client has not closed its end
 *
 * From CLOSES or LINGERS it is freed.  A connection that is lost CLOSES or LINGERS.  In CLOSES and
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

/* When the client was known not to have given up; see peer.h.  Times: CLOCK_BOOTTIME, ns. */
struct conn_presence {
	uint64_t seen;            /* it had not given up then; 0: unknown */
	bool said_disc;           /* it has sent a disconnect request, which may still be unread */
	uint64_t changes;         /* its own that have begun, as traffic_change() counts */
	uint64_t others_changes;  /* changes by others that had begun at `seen`, or before */
	uint64_t receiving_since; /* the present receive began then, or later */
	uint64_t received_since;  /* the same of the receive before */
	bool all_received;        /* the receive before left nothing unread */
};

/* What the connection has of the budgets of its export and of its client, see held.h. */
struct conn_limit {
	struct limiter *limiters[LIMIT_SCOPES];            /* held; NULL: no limit */
	struct share shares[LIMIT_SCOPES][LIMIT_KINDS][2]; /* as in struct limiter */
	bool waits;                   /* a request is not admitted yet; then also: */
	unsigned int write;           /* 1 if it is a change, else 0 */
	uint64_t cost[LIMIT_KINDS];   /* of it */
	bool held;                    /* it is held back; then also: */
	uint64_t since;               /* CLOCK_BOOTTIME, ns */
	uint64_t due;                 /* the same: until then */
	struct conn *previous, *next; /* in the worker's list */
};

struct conn {
	struct worker *worker;
	int fd;
	uint64_t id;               /* unique in the process, from 1 */
	struct identity *identity; /* of the client; owned */
	struct conn *next, **link; /* in the worker's list */
	struct conn *next_dirty;
	bool dirty;

	struct conn_negotiation *negotiation; /* NULL: requests are exchanged */
	struct nbd_session session;
	struct offer *offer;
	struct export_client *client; /* of the offer's export: how it counts there */
	struct worker_context *context;

	enum conn_life life;
	time_t deadline;   /* CLOCK_MONOTONIC, seconds; while it negotiates, or lingers */
	bool lost;         /* no reply can be sent any more; waiting changes are dropped */
	bool unheard;      /* the same, but waiting changes are carried out: see peer_left() */
	bool end_of_input; /* the client has closed its end, or the socket has failed */
	struct conn_presence presence;
	bool stalled;         /* its input waits for a buffer, or for the end of a request */
	time_t stalled_since; /* CLOCK_MONOTONIC, seconds: the first stall since all input was
				 taken; 0: none */

	struct conn_tls *tls; /* between the connection and its socket; NULL: nothing is */
	bool kernel_tls;      /* the kernel encrypts */
	bool said_end;        /* the client was told, by TLS, that nothing more follows */
	uint64_t key_bytes;   /* the most that it may encrypt in one direction; 0: no limit */
	char security[160];   /* for the status: version and cipher of TLS, and where it is
				 computed; "": there is no TLS */

	struct loop_op recv_op;
	uint8_t *input; /* CONN_INPUT bytes */
	size_t input_start, input_end;
	uint64_t to_drop;        /* bytes to come of a refused request's payload */
	struct request *refused; /* that request, answered after its payload; or NULL */
	struct request *filling; /* its payload is received straight into its buffer; or NULL */
	size_t filled;           /* bytes of that payload that have arrived */

	unsigned int requests; /* in flight: their reply is not sent yet */
	unsigned int room; /* requests below this number need no further look: CONN_REQUESTS; 0 if
			      there are limits */
	uint64_t read_bytes, write_bytes; /* of requests that succeeded */
	unsigned int buffers;             /* of those requests */
	uint64_t bytes_in, bytes_out;     /* through the socket, in completed operations */
	struct stuck stuck;
	struct request *hungry, **hungry_tail; /* reads that wait for a buffer */
	struct request *ready, **ready_tail;   /* with a reply to send */

	struct loop_op send_op;
	struct request *sending;
	struct request *early;         /* reads with early data to send, see early.h */
	struct request *early_sending; /* the send in flight has data of it; or NULL */
	uint8_t early_head[NBD_REPLY_DATA_MAX];
	struct msghdr message;
	struct iovec iov[CONN_PARTS];

	struct conn_limit limit;
};

/* Removes the first `n` bytes of a message.  False: nothing is left. */
static inline bool
message_advance(struct msghdr *message, size_t n)
{
	while (message->msg_iovlen > 0 && n >= message->msg_iov->iov_len) {
		n -= message->msg_iov->iov_len;
		message->msg_iov++;
		message->msg_iovlen--;
	}
	if (message->msg_iovlen == 0)
		return false;
	message->msg_iov->iov_base = (char *)message->msg_iov->iov_base + n;
	message->msg_iov->iov_len -= n;
	return true;
}

static inline bool
conn_is_closing(const struct conn *conn)
{
	return conn->life >= CONN_CLOSES;
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

/* A reason to abort or close it. */
#define CONN_GAVE_UP "gave up on this connection: requests that waited on it are dropped"

/* Logs why a client is disconnected, with a rate limit. */
void
conn_warn(const struct conn *conn, const char *reason);

/* The same for the result of an operation on its socket, if that is an error.  A client that closes
 * its connection needs no message, nor does an operation that we cancelled. */
void
conn_warn_of_error(const struct conn *conn, int result);

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

/* Aborts the connection if it has negotiated or lingered for too long.  `now`: CLOCK_MONOTONIC,
 * seconds. */
void
conn_check_deadline(struct conn *conn, time_t now);

/* Lets the input wait, for memory or for the end of a request. */
void
conn_stall(struct conn *conn);

#endif
