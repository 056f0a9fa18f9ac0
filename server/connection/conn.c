/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/conn.h"

#include "server/access/identity.h"
#include "server/connection/conn_state.h"
#include "server/connection/conn_tls.h"
#include "server/connection/early.h"
#include "server/connection/held.h"
#include "server/connection/intake.h"
#include "server/connection/linger.h"
#include "server/connection/look.h"
#include "server/connection/negotiation.h"
#include "server/connection/peer.h"
#include "server/connection/replies.h"
#include "server/request/request.h"
#include "server/request/requests.h"
#include "server/worker/worker_contexts.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/container_of.h"
#include "common/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void
received(struct completion *completion, int result);
static void
receive(struct conn *conn);
static void
sent(struct completion *completion, int result);

size_t
conn_memory(bool tls)
{
	return sizeof(struct conn) + sizeof(struct conn_negotiation) + CONN_INPUT +
	       (tls ? conn_tls_memory() : 0);
}

struct conn *
conn_new(int fd, struct identity *identity)
{
	static _Atomic uint64_t last_id;
	struct conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->negotiation = calloc(1, sizeof(*conn->negotiation));
	conn->input = malloc(CONN_INPUT);
	if (!conn->negotiation || !conn->input) {
		negotiation_free(conn->negotiation);
		free(conn->input);
		free(conn);
		return NULL;
	}
	conn->fd = fd;
	conn->room = CONN_REQUESTS;
	conn->id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
	conn->ready_tail = &conn->ready;
	conn->hungry_tail = &conn->hungry;
	conn->recv_op.completion.done = received;
	conn->send_op.completion.done = sent;
	conn->identity = identity;
	return conn;
}

static void
conn_free(struct conn *conn)
{
	struct worker *worker = conn->worker;

	held_leave(conn);
	*conn->link = conn->next;
	if (conn->next)
		conn->next->link = conn->link;
	if (conn->negotiation || conn->life == CONN_LINGERS)
		worker->deadlines--;
	look_forget(conn);
	if (conn->offer)
		worker->config->left(worker->config->exports, conn->offer, conn->client);
	atomic_fetch_sub_explicit(&worker->connections, 1, memory_order_relaxed);
	newcomer_leave(&conn->identity->newcomer);
	close(conn->fd);
	worker->config->closed(worker->config->data);
	negotiation_end(conn);
	identity_free(conn->identity);
	conn_tls_free(conn->tls);
	free(conn->input);
	free(conn);
}

/* ---- receiving */

/* An incomplete request moves to the front. */
static void
compact_input(struct conn *conn)
{
	if (conn->input_start == 0)
		return;
	memmove(conn->input, conn->input + conn->input_start, conn->input_end - conn->input_start);
	conn->input_end -= conn->input_start;
	conn->input_start = 0;
}

static void
end_of_input(struct conn *conn, int result);
static void
take(struct conn *conn, size_t length);

/* Decrypts the next bytes to where the connection wants them.  TLS_DONE: some were taken. */
static enum tls_result
take_decrypted(struct conn *conn)
{
	enum tls_result result;
	size_t length;

	if (conn->filling) {
		result = conn_tls_read(conn, conn->filling->data + conn->filled,
				       conn->filling->nbd.length - conn->filled, &length);
	} else {
		compact_input(conn);
		result = conn_tls_read(conn, conn->input + conn->input_end,
				       CONN_INPUT - conn->input_end, &length);
	}
	if (length == 0)
		return result;
	take(conn, length);
	return TLS_DONE;
}

/* As receive(), with TLS: takes what has come, then waits for more. */
static void
receive_secure(struct conn *conn)
{
	enum tls_result result = TLS_DONE;

	while (!conn->tls->shaking && result == TLS_DONE) {
		result = take_decrypted(conn);
		if (conn->recv_op.active || conn_is_closing(conn) || conn->stalled ||
		    (conn->negotiation && negotiation_waits(conn)))
			return;
	}
	if (result == TLS_FAILED)
		conn_tls_fail(conn);
	else if (result == TLS_CLOSED)
		end_of_input(conn, 0);
	if (conn_is_closing(conn))
		return;
	/* Nothing is left unread. */
	if (conn->tls->short_receive)
		conn->stalled_since = 0;
	conn_tls_ask_kernel(conn);
	if (conn->tls)
		conn_tls_receive(conn);
	else
		receive(conn);
}

static void
receive(struct conn *conn)
{
	struct loop *loop = conn->worker->loop;

	if (conn->recv_op.active || conn_is_closing(conn) || conn->stalled)
		return;
	conn->presence.receiving_since = worker_now(conn->worker);
	if (__builtin_expect(conn->tls != NULL, 0)) {
		receive_secure(conn);
		return;
	}
	if (conn->filling) {
		loop_recv(loop, &conn->recv_op, conn->fd, conn->filling->data + conn->filled,
			  conn->filling->nbd.length - conn->filled, true);
		return;
	}
	compact_input(conn);
	loop_recv(loop, &conn->recv_op, conn->fd, conn->input + conn->input_end,
		  CONN_INPUT - conn->input_end, false);
}

/* ---- negotiating */

/* The handshake's output has been sent. */
static void
begin_requests(struct conn *conn)
{
	negotiation_free(conn->negotiation);
	conn->negotiation = NULL;
	newcomer_leave(&conn->identity->newcomer);
	conn->worker->deadlines--;
	if (conn->life == CONN_NEGOTIATES)
		conn->life = CONN_SERVES;
	conn->context = worker_context(conn->worker, conn->offer);
	if (!conn->context) {
		conn_warn(conn, "there is no memory, or no descriptor, for what its image needs");
		conn_abort(conn);
		return;
	}
	intake_run(conn);
	receive(conn);
}

static void
continue_tls(struct conn *conn, enum conn_tls_next next)
{
	if (next == CONN_TLS_BEGUN)
		negotiation_secured(conn);
	if (next == CONN_TLS_BEGUN || next == CONN_TLS_RECEIVES)
		receive(conn);
}

/* A step of the TLS handshake is done. */
static void
shaken(struct worker *worker, struct worker_message *message)
{
	struct conn *conn = message->data;

	(void)worker;
	conn_mark_dirty(conn);
	continue_tls(conn, conn_tls_shaken(conn));
}

static void
begin_tls(struct conn *conn)
{
	if (conn_tls_begin(conn, shaken) < 0) {
		conn_warn(conn, "there is no memory for TLS");
		conn_abort(conn);
		return;
	}
	receive(conn);
}

static void
go_on_negotiating(struct conn *conn);

static void
continue_negotiation(struct conn *conn, enum negotiation_next next)
{
	while (next == NEGOTIATION_LOOKS && !look_begin(conn, go_on_negotiating))
		next = negotiation_feed(conn);

	if (next == NEGOTIATION_OVER)
		begin_requests(conn);
	else if (next == NEGOTIATION_RECEIVES)
		receive(conn);
	else if (next == NEGOTIATION_SECURES)
		begin_tls(conn);
}

/* A look is over. */
static void
go_on_negotiating(struct conn *conn)
{
	conn_mark_dirty(conn);
	continue_negotiation(conn, negotiation_feed(conn));
}

/* ---- completions of sockets */

/* Nothing more is received: the client has closed its end (0), or -errno. */
static void
end_of_input(struct conn *conn, int result)
{
	conn->end_of_input = true;
	conn_tls_warn_of_end(conn, result);
	/* The client may have sent only a part of a request. */
	if (result < 0 || conn->filling || conn->input_end > conn->input_start)
		conn_abort(conn);
	else
		conn_close(conn);
}

/* Takes bytes that were received, and decrypted, to where the connection wanted them. */
static void
take(struct conn *conn, size_t length)
{
	if (conn->negotiation) {
		conn->input_end += length;
		continue_negotiation(conn, negotiation_feed(conn));
		return;
	}
	if (conn->filling) {
		conn->filled += length;
		if (conn->filled == conn->filling->nbd.length) {
			conn->stuck.data.waits = false;
			requests_filled(conn);
		}
	} else {
		conn->input_end += length;
	}
	intake_run(conn);
}

/* The same for bytes that are to be decrypted. */
static void
take_encrypted(struct conn *conn, size_t length)
{
	conn_tls_received(conn, length);
	if (conn->tls->shaking) {
		conn_tls_shake(conn);
		return;
	}
	if (!conn->negotiation)
		peer_note_bytes(conn, conn->tls->short_receive);
	receive(conn);
}

static void
received(struct completion *completion, int result)
{
	struct conn *conn = container_of(completion, struct conn, recv_op.completion);
	bool all;

	conn->recv_op.active = false;
	conn->bytes_in += result > 0 ? (size_t)result : 0;
	conn_mark_dirty(conn);
	if (result == -EINTR || result == -EAGAIN) {
		receive(conn);
		return;
	}
	if (result <= 0) {
		end_of_input(conn, result);
		return;
	}
	if (conn->life == CONN_LINGERS)
		return;
	if (__builtin_expect(conn->tls != NULL, 0)) {
		take_encrypted(conn, (size_t)result);
		return;
	}
	if (!conn->negotiation) {
		/* Nothing is left unread. */
		all = !conn->filling && (size_t)result < CONN_INPUT - conn->input_end;
		peer_note_bytes(conn, all);
		if (all)
			conn->stalled_since = 0;
		take(conn, (size_t)result);
		receive(conn);
		return;
	}
	take(conn, (size_t)result);
}

static void
cannot_answer(struct conn *conn, int result)
{
	if (conn->stalled && !conn_is_closing(conn))
		conn_warn(conn, CONN_GAVE_UP);
	else
		conn_tls_warn_of_end(conn, result);
	conn_abort(conn);
}

/* The socket has taken encrypted bytes.  False: all of conn->message is sent. */
static bool
secure_sent(struct conn *conn, size_t length)
{
	enum conn_tls_next next = conn_tls_sent(conn, length);

	continue_tls(conn, next);
	return next != CONN_TLS_SENT;
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
	} else if (__builtin_expect(conn->tls != NULL, 0)) {
		if (secure_sent(conn, result > 0 ? (size_t)result : 0))
			return;
	} else if (!conn->lost &&
		   message_advance(&conn->message, result > 0 ? (size_t)result : 0)) {
		loop_send(conn->worker->loop, &conn->send_op, conn->fd, &conn->message);
		return;
	}
	if (conn->negotiation)
		continue_negotiation(conn, negotiation_sent(conn));
	else
		replies_sent(conn);
}

/* ---- sending */

/* While a request waited, its client may have given up and repeated it over another connection: it
 * must not be carried out after that one. */
void
conn_resume(struct conn *conn)
{
	/* It stays stalled, and is settled again when one of its requests has finished. */
	if (conn->requests >= CONN_REQUESTS || conn->hungry || held_waits(conn))
		return;
	if (clock_seconds(CLOCK_MONOTONIC_COARSE) > conn->stalled_since && peer_gave_up(conn)) {
		conn_warn(conn, CONN_GAVE_UP);
		conn_close(conn);
		return;
	}
	intake_run(conn);
	receive(conn);
}

/* When all requests that the client had sent are taken, later ones are refused; when all are
 * answered, the connection closes. */
static void
drain_further(struct conn *conn)
{
	if (!loop_waits(conn->worker->loop, &conn->recv_op) || peer_sent_more(conn))
		return;
	conn->life = CONN_REFUSES;
	if (conn->requests == 0)
		conn_close(conn);
}

void
conn_settle(struct conn *conn)
{
	if (conn->hungry)
		requests_feed(conn);
	if (conn->lost || conn->unheard) {
		replies_drop(conn);
		/* They could not be encrypted. */
		if ((conn->sending || conn->early_sending) && !conn->send_op.active)
			replies_sent(conn);
	} else if (conn->ready && !conn->sending) {
		replies_send(conn);
	} else if (conn->early && !conn->send_op.active) {
		early_send(conn);
	}
	if (conn->stalled && !conn_is_closing(conn))
		conn_resume(conn);
	if (__builtin_expect(conn->key_bytes != 0, 0))
		conn_tls_check_keys(conn);
	if (conn->life == CONN_DRAINS || conn->life == CONN_REFUSES)
		drain_further(conn);
	if (!conn_is_closing(conn))
		return;
	/* A request that was received only in part ends here.  One that is in flight in the image
	 * does not: its write must not happen after the client has seen the connection close. */
	if (conn->filling && !conn->recv_op.active) {
		buffers_not_filled(&conn->filling->buffer);
		request_finish(conn->filling);
		conn->filling = NULL;
	}
	if (conn->refused)
		request_finish(steal_pointer(&conn->refused));
	/* If it became dirty here, it is settled again. */
	if (conn->dirty || conn->requests > 0 || conn->send_op.active || conn_tls_is_working(conn))
		return;
	if (conn_linger(conn))
		return;
	if (conn->recv_op.active) {
		conn_tls_say_end(conn);
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
