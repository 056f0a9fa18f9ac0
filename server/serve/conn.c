/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/serve/conn.h"

#include "server/serve/conn_state.h"
#include "server/serve/intake.h"
#include "server/serve/negotiation.h"
#include "server/serve/peer.h"
#include "server/serve/replies.h"
#include "server/serve/request.h"
#include "server/serve/requests.h"
#include "server/serve/worker_contexts.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/container_of.h"
#include "common/log.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Seconds for the client to take the last replies, and to close its end. */
#define LINGER_LIMIT 2

static void
received(struct completion *completion, int result);
static void
sent(struct completion *completion, int result);

size_t
conn_memory(void)
{
	return sizeof(struct conn) + sizeof(struct conn_negotiation) + CONN_INPUT;
}

struct conn *
conn_new(int fd, const char *peer)
{
	static _Atomic uint64_t last_id;
	struct conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->negotiation = calloc(1, sizeof(*conn->negotiation));
	conn->input = malloc(CONN_INPUT);
	if (!conn->negotiation || !conn->input) {
		free(conn->negotiation);
		free(conn->input);
		free(conn);
		return NULL;
	}
	conn->fd = fd;
	conn->id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
	conn->ready_tail = &conn->ready;
	conn->hungry_tail = &conn->hungry;
	conn->recv_op.completion.done = received;
	conn->send_op.completion.done = sent;
	snprintf(conn->peer, sizeof(conn->peer), "%s", peer);
	return conn;
}

static void
conn_free(struct conn *conn)
{
	struct worker *worker = conn->worker;

	*conn->link = conn->next;
	if (conn->next)
		conn->next->link = conn->link;
	if (conn->negotiation || conn->life == CONN_LINGERS)
		worker->deadlines--;
	if (conn->served)
		worker->config->left(worker->config->data, conn->served);
	atomic_fetch_sub_explicit(&worker->connections, 1, memory_order_relaxed);
	close(conn->fd);
	worker->config->closed(worker->config->data);
	free(conn->negotiation);
	free(conn->input);
	free(conn);
}

/* ---- receiving */

static void
receive(struct conn *conn)
{
	struct loop *loop = conn->worker->loop;

	if (conn->recv_op.active || conn_is_closing(conn) || conn->stalled)
		return;
	conn->presence.receiving_since = worker_now(conn->worker);
	if (conn->filling) {
		loop_recv(loop, &conn->recv_op, conn->fd, conn->filling->data + conn->filled,
			  conn->filling->nbd.length - conn->filled, true);
		return;
	}
	/* A piece of a request is left: it goes to the front. */
	if (conn->input_start > 0) {
		memmove(conn->input, conn->input + conn->input_start,
			conn->input_end - conn->input_start);
		conn->input_end -= conn->input_start;
		conn->input_start = 0;
	}
	loop_recv(loop, &conn->recv_op, conn->fd, conn->input + conn->input_end,
		  CONN_INPUT - conn->input_end, false);
}

/* ---- negotiating */

/* The output was sent. */
static void
begin_requests(struct conn *conn)
{
	free(conn->negotiation);
	conn->negotiation = NULL;
	conn->worker->deadlines--;
	if (conn->life == CONN_NEGOTIATES)
		conn->life = CONN_SERVES;
	conn->context = worker_context(conn->worker, conn->served);
	if (!conn->context) {
		conn_warn(conn, "there is no memory, or no descriptor, for what its image needs");
		conn_abort(conn);
		return;
	}
	intake_run(conn);
	receive(conn);
}

static void
go_on_negotiating(struct conn *conn, enum negotiation_next next)
{
	if (next == NEGOTIATION_OVER)
		begin_requests(conn);
	else if (next == NEGOTIATION_RECEIVES)
		receive(conn);
}

/* ---- completions of sockets */

/* Bytes were received.  If none had been left unread before, they were sent after the receiving
 * before this one began. */
static void
note_presence(struct conn *conn, bool all)
{
	struct conn_presence *presence = &conn->presence;

	if (presence->all_received && presence->received_since > presence->seen)
		presence->seen = presence->received_since;
	presence->all_received = all;
	presence->received_since = presence->receiving_since;
}

/* A client that goes away isn't worth a message, nor is an operation that we have cancelled. */
static void
warn_of_error(const struct conn *conn, int result)
{
	if (result < 0 && result != -ECONNRESET && result != -EPIPE && result != -ECANCELED &&
	    !conn_is_closing(conn))
		conn_warn(conn, strerror(-result));
}

static void
received(struct completion *completion, int result)
{
	struct conn *conn = container_of(completion, struct conn, recv_op.completion);

	conn->recv_op.active = false;
	conn->bytes_in += result > 0 ? (size_t)result : 0;
	conn_mark_dirty(conn);
	if (result == -EINTR || result == -EAGAIN)
		result = 0;
	else if (result <= 0) {
		conn->end_of_input = true;
		warn_of_error(conn, result);
		/* Without a disconnect request, the client may have been in the middle of
		 * something. */
		if (result < 0 || conn->filling || conn->input_end > conn->input_start)
			conn_abort(conn);
		else
			conn_close(conn);
		return;
	}
	if (conn->life == CONN_LINGERS)
		return;
	if (conn->negotiation) {
		conn->input_end += (size_t)result;
		go_on_negotiating(conn, negotiation_feed(conn));
		return;
	}
	if (result > 0)
		note_presence(conn,
			      !conn->filling && (size_t)result < CONN_INPUT - conn->input_end);
	if (conn->filling) {
		conn->filled += (size_t)result;
		if (conn->filled == conn->filling->nbd.length) {
			conn->stuck.data.waits = false;
			requests_filled(conn);
		}
	} else {
		/* It was all that there was. */
		if ((size_t)result < CONN_INPUT - conn->input_end)
			conn->stalled_since = 0;
		conn->input_end += (size_t)result;
	}
	intake_run(conn);
	receive(conn);
}

/* Goes on after the first `n` bytes of the message.  False: nothing is left. */
static bool
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

static void
cannot_answer(struct conn *conn, int result)
{
	if (conn->stalled && !conn_is_closing(conn))
		conn_warn(conn, CONN_GAVE_UP);
	else
		warn_of_error(conn, result);
	conn_abort(conn);
}

static void
sent(struct completion *completion, int result)
{
	struct conn *conn = container_of(completion, struct conn, send_op.completion);

	conn->send_op.active = false;
	conn->bytes_out += result > 0 ? (size_t)result : 0;
	conn_mark_dirty(conn);
	if (result < 0 && result != -EINTR && result != -EAGAIN) {
		if (!conn->negotiation && !conn->lost && peer_left(conn))
			conn->unheard = true;
		else
			cannot_answer(conn, result);
	} else if (!conn->lost &&
		   message_advance(&conn->message, result > 0 ? (size_t)result : 0)) {
		loop_send(conn->worker->loop, &conn->send_op, conn->fd, &conn->message);
		return;
	}
	if (conn->negotiation)
		go_on_negotiating(conn, negotiation_sent(conn));
	else
		replies_sent(conn);
}

/* ---- sending */

/* A request that waited for long may come from a client that has lost patience since, and has sent
 * it again over another connection: it must not be carried out after that one. */
static void
go_on(struct conn *conn)
{
	/* It stays stalled; it is settled again when one of its requests is over. */
	if (conn->requests >= CONN_REQUESTS || conn->hungry)
		return;
	if (clock_seconds(CLOCK_MONOTONIC_COARSE) > conn->stalled_since && peer_gave_up(conn)) {
		conn_warn(conn, CONN_GAVE_UP);
		conn_close(conn);
		return;
	}
	intake_run(conn);
	receive(conn);
}

/* When all that had been sent is taken, requests that follow are refused; when all are answered,
 * the connection closes. */
static void
go_on_draining(struct conn *conn)
{
	if (!loop_waits(conn->worker->loop, &conn->recv_op) || peer_sent_more(conn))
		return;
	conn->life = CONN_REFUSES;
	if (conn->requests == 0)
		conn_close(conn);
}

static bool
is_tcp(const struct conn *conn)
{
	socklen_t length = sizeof(int);
	int domain;

	return getsockopt(conn->fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 &&
	       (domain == AF_INET || domain == AF_INET6);
}

/* Closing a TCP socket in which something is unread, or to which something still comes, resets the
 * connection: the last replies would be lost.  So the client is told the end, and what it sends
 * is thrown away until it has closed its own.  False: there is no need, or not any longer. */
static bool
linger(struct conn *conn)
{
	if (conn->lost || conn->end_of_input || (conn->life != CONN_LINGERS && !is_tcp(conn)))
		return false;
	if (conn->life != CONN_LINGERS) {
		shutdown(conn->fd, SHUT_WR);
		conn->deadline = clock_seconds(CLOCK_MONOTONIC) + LINGER_LIMIT;
		conn->life = CONN_LINGERS;
		if (!conn->negotiation)
			conn->worker->deadlines++;
	}
	if (!conn->recv_op.active)
		loop_recv(conn->worker->loop, &conn->recv_op, conn->fd, conn->input, CONN_INPUT,
			  false);
	return true;
}

void
conn_settle(struct conn *conn)
{
	if (conn->hungry)
		requests_feed(conn);
	if (conn->lost || conn->unheard)
		replies_drop(conn);
	else if (conn->ready && !conn->sending)
		replies_send(conn);
	if (conn->stalled && !conn_is_closing(conn))
		go_on(conn);
	if (conn->life == CONN_DRAINS || conn->life == CONN_REFUSES)
		go_on_draining(conn);
	/* A request that came only in part is over; one that is under way in the image isn't: its
	 * write must not land when the client takes it for lost. */
	if (conn_is_closing(conn) && conn->filling && !conn->recv_op.active) {
		request_finish(conn->filling);
		conn->filling = NULL;
	}
	if (conn_is_closing(conn) && conn->refused)
		request_finish(steal_pointer(&conn->refused));
	/* If it became dirty here, it is settled once more. */
	if (conn->dirty || !conn_is_closing(conn) || conn->requests > 0 || conn->send_op.active)
		return;
	if (linger(conn))
		return;
	if (conn->recv_op.active) {
		shutdown(conn->fd, SHUT_RDWR);
		loop_cancel(conn->worker->loop, &conn->recv_op);
		return;
	}
	conn_free(conn);
}

/* ---- beginning and end */

void
conn_start(struct conn *conn, struct worker *worker)
{
	conn->deadline = clock_seconds(CLOCK_MONOTONIC) + worker->config->handshake_limit;
	conn->worker = worker;
	conn->next = worker->conns;
	conn->link = &worker->conns;
	if (conn->next)
		conn->next->link = &conn->next;
	worker->conns = conn;
	worker->deadlines++;
	negotiation_start(conn);
}

void
conn_check_deadline(struct conn *conn, time_t now)
{
	char reason[64];

	if ((!conn->negotiation && conn->life != CONN_LINGERS) || now < conn->deadline ||
	    conn->lost)
		return;
	if (conn->life != CONN_LINGERS) {
		snprintf(reason, sizeof(reason), "did not finish the handshake in %u seconds",
			 conn->worker->config->handshake_limit);
		conn_warn(conn, reason);
	}
	conn_abort(conn);
}
