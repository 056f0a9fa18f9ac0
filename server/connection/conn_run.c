/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/conn_run.h"

#include "server/access/identity.h"
#include "server/connection/conn.h"
#include "server/connection/dispatch.h"
#include "server/connection/look.h"
#include "server/connection/negotiation.h"
#include "server/connection/offer.h"
#include "server/connection/peer.h"
#include "server/connection/throttle.h"
#include "server/connection/tls_transport.h"
#include "server/connection/worker_contexts.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Seconds for the client to receive the last replies, and to close its end. */
#define LINGER_LIMIT 2

size_t
conn_run_memory(bool tls)
{
	return sizeof(struct conn) + sizeof(struct conn_negotiation) + INTAKE_SIZE +
	       (tls ? tls_transport_memory() : 0);
}

static void
conn_run_free(struct conn *conn)
{
	struct worker *worker = conn->worker;

	throttle_leave(conn);
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
	close(conn->transport.fd);
	worker->config->closed(worker->config->data);
	negotiation_end(conn);
	identity_free(conn->identity);
	tls_transport_free(conn->transport.tls);
	intake_fini(&conn->intake);
	free(conn);
}

/* ---- what the client has sent */

/* The handshake's output has been sent. */
static void
conn_run_begin_requests(struct conn *conn)
{
	const struct export *export = conn->offer->export;

	negotiation_free(conn->negotiation);
	conn->negotiation = NULL;
	newcomer_leave(&conn->identity->newcomer);
	conn->worker->deadlines--;
	if (conn->life == CONN_NEGOTIATES)
		conn->life = CONN_SERVES;
	conn->context = worker_context(conn->worker, conn->offer);
	if (!conn->context) {
		conn_warn(conn, "not enough memory or file descriptors for its image");
		conn_abort(conn);
		return;
	}
	conn->queue.ctx = conn->context->ctx;
	conn->queue.traffic = conn->context->traffic;
	conn->queue.holes = &conn->context->holes;
	conn->queue.image = export->image;
	conn->queue.checkpoints = export->checkpoints;
	dispatch_run(conn);
}

static void
conn_run_pump(struct conn *conn);

/* TLS has begun. */
static void
conn_run_secured(struct conn *conn)
{
	negotiation_secured(conn);
	conn_run_pump(conn);
}

static void
conn_run_looked(struct conn *conn);

static void
conn_run_negotiate(struct conn *conn, enum negotiation_next next)
{
	while (next == NEGOTIATION_LOOKS && !look_begin(conn, conn_run_looked))
		next = negotiation_feed(conn);
	if (next == NEGOTIATION_OVER) {
		conn_run_begin_requests(conn);
	} else if (next == NEGOTIATION_SECURES && tls_transport_begin(conn, conn_run_secured) < 0) {
		conn_warn(conn, "there is no memory for TLS");
		conn_abort(conn);
	}
}

/* A look is over. */
static void
conn_run_looked(struct conn *conn)
{
	conn_mark_dirty(conn);
	conn_run_negotiate(conn, negotiation_feed(conn));
	conn_run_pump(conn);
}

/* Logs how a connection's bytes have ended: 0 or -errno. A client that closes its connection needs
 * no message, nor does an operation that we cancelled; but one that has left in the handshake of
 * TLS may not trust this server. */
static void
conn_run_warn(const struct conn *conn, int result)
{
	const struct transport *transport = &conn->transport;

	if (conn_is_closing(conn) || result == -ECANCELED)
		return;
	if (transport->tls && tls_transport_shakes(transport->tls))
		conn_warn(
			conn,
			"TLS: the client left during the handshake: it may not trust this server's certificate, or have another key");
	else if (result == -EIO && transport->kernel_tls)
		conn_warn(conn, "TLS: the client sent a message other than data, such as an alert "
				"or new keys");
	else if (result < 0 && result != -ECONNRESET && result != -EPIPE)
		conn_warn(conn, strerror(-result));
}

/* Nothing more is received: the client has closed its end (0), or -errno. */
static __attribute__((noinline)) void
conn_run_end_input(struct conn *conn, int result)
{
	conn->end_of_input = true;
	conn_run_warn(conn, result);
	/* The client may have sent only a part of a request. */
	if (result < 0 || conn->intake.filling || intake_length(&conn->intake) > 0)
		conn_abort(conn);
	else
		conn_close(conn);
}

/* Takes bytes that have come. */
static void
conn_run_take(struct conn *conn, size_t length)
{
	struct request *filled = intake_add(&conn->intake, length);

	if (conn->negotiation) {
		conn_run_negotiate(conn, negotiation_feed(conn));
		return;
	}
	if (filled) {
		conn->data.waits = false;
		dispatch_filled(filled);
	}
	dispatch_run(conn);
}

/* Takes what the transport has at once, as TLS may, and receives more. */
static void
conn_run_pump(struct conn *conn)
{
	while (!transport_receives(&conn->transport) && !conn_is_closing(conn) && !conn->paused &&
	       !(conn->negotiation && negotiation_waits(conn))) {
		size_t size;
		bool all;
		void *to = intake_room(&conn->intake, &size, &all);
		ssize_t n;

		conn->presence.receiving_since = request_now(conn->queue.pool);
		n = transport_receive(&conn->transport, to, size, all);
		if (n < 0)
			conn_run_end_input(conn, 0);
		if (n <= 0)
			return;
		conn_run_take(conn, (size_t)n);
	}
}

static void
conn_run_on_input(struct transport *transport, int result)
{
	struct conn *conn = container_of(transport, struct conn, transport);

	conn_mark_dirty(conn);
	if (result <= 0 && result != TRANSPORT_ENCRYPTED && result != -EINTR && result != -EAGAIN)
		conn_run_end_input(conn, result);
	if (conn->life == CONN_LINGERS)
		return;
	if (!conn->negotiation && (result > 0 || result == TRANSPORT_ENCRYPTED))
		peer_note_bytes(conn, transport->drained);
	if (result > 0) {
		if (transport->drained)
			conn->paused_since = 0;
		conn_run_take(conn, (size_t)result);
	}
	conn_run_pump(conn);
}

/* While a request waited, its client may have given up and repeated it over another connection: it
 * must not be carried out after that one. */
void
conn_run_resume(struct conn *conn)
{
	/* It stays paused, and is settled again when one of its requests has finished. */
	if (conn->queue.in_flight >= CONN_REQUESTS || conn->queue.hungry.first ||
	    throttle_waits(conn))
		return;
	if (clock_seconds(CLOCK_MONOTONIC_COARSE) > conn->paused_since && peer_gave_up(conn)) {
		conn_warn(conn, CONN_GAVE_UP);
		conn_close(conn);
		return;
	}
	dispatch_run(conn);
	conn_run_pump(conn);
}

/* ---- what is sent */

static __attribute__((noinline)) void
conn_run_fail_output(struct conn *conn, int result)
{
	if (!conn->negotiation && !conn_is_lost(conn) && peer_left(conn)) {
		conn->outbox.unheard = true;
		return;
	}
	if (conn->paused && !conn_is_closing(conn))
		conn_warn(conn, CONN_GAVE_UP);
	else
		conn_run_warn(conn, result);
	conn_abort(conn);
}

static void
conn_run_on_sent(struct transport *transport, int result)
{
	struct conn *conn = container_of(transport, struct conn, transport);

	conn_mark_dirty(conn);
	if (result < 0)
		conn_run_fail_output(conn, result);
	if (conn->negotiation) {
		conn_run_negotiate(conn, negotiation_sent(conn));
		conn_run_pump(conn);
		return;
	}
	conn->replies.waits = false;
	outbox_sent(&conn->outbox, transport);
}

/* ---- beginning and end */

struct conn *
conn_run_new(int fd, struct identity *identity)
{
	static _Atomic uint64_t last_id;
	struct conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->negotiation = calloc(1, sizeof(*conn->negotiation));
	if (!conn->negotiation || !intake_init(&conn->intake)) {
		negotiation_free(conn->negotiation);
		free(conn);
		return NULL;
	}
	transport_init(&conn->transport, fd);
	conn->transport.received = conn_run_on_input;
	conn->transport.sent = conn_run_on_sent;
	conn->throttle.room = CONN_REQUESTS;
	conn->queue.id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
	request_list_init(&conn->queue.hungry);
	request_list_init(&conn->outbox.ready);
	conn->identity = identity;
	return conn;
}

void
conn_run_start(struct conn *conn, struct worker *worker)
{
	conn->deadline = clock_seconds(CLOCK_MONOTONIC) + worker->config->handshake_limit;
	conn->worker = worker;
	conn->transport.loop = worker->loop;
	conn->queue.pool = &worker->pool;
	conn->next = worker->conns;
	conn->link = &worker->conns;
	if (conn->next)
		conn->next->link = &conn->next;
	worker->conns = conn;
	worker->deadlines++;
	negotiation_start(conn);
}

/* When all requests that the client had sent are taken, later ones are refused; when all are
 * answered, the connection closes. */
static __attribute__((noinline)) void
conn_run_drain(struct conn *conn)
{
	if (!loop_waits(conn->worker->loop, &conn->transport.recv_op) || peer_sent_more(conn))
		return;
	conn->life = CONN_REFUSES;
	if (conn->queue.in_flight == 0)
		conn_close(conn);
}

/* Returns whether the connection lingers. Closing a TCP socket that has unread bytes, or still
 * receives some, resets the connection, and the last replies would be lost. So only the sending
 * side is closed first, and input is discarded until the client has closed its side. */
static bool
conn_run_linger(struct conn *conn)
{
	struct transport *transport = &conn->transport;

	if (conn_is_lost(conn) || conn->end_of_input ||
	    (conn->life != CONN_LINGERS && conn->identity->kind != IDENTITY_INET))
		return false;
	if (conn->life != CONN_LINGERS) {
		/* With TLS, a client takes an end that was not announced for an attack. */
		transport_say_end(transport);
		transport_be_plain(transport);
		shutdown(transport->fd, SHUT_WR);
		conn->deadline = clock_seconds(CLOCK_MONOTONIC) + LINGER_LIMIT;
		conn->life = CONN_LINGERS;
		if (!conn->negotiation)
			conn->worker->deadlines++;
	}
	if (!transport_receives(transport))
		transport_receive(transport, conn->intake.bytes, INTAKE_SIZE, false);
	return true;
}

/*
 * Takes the next step to the end of a connection that takes no more requests, each time it is
 * settled: drops what has come only in part, waits for what is under way, lingers, ends a receive
 * that is under way, and frees the connection.
 */
static __attribute__((noinline)) void
conn_run_end(struct conn *conn)
{
	struct transport *transport = &conn->transport;

	if (conn->intake.filling && !transport_receives(transport)) {
		struct request *cut = steal_pointer(&conn->intake.filling);

		buffers_not_filled(&cut->buffer);
		request_finish(cut);
	}
	if (conn->intake.refused)
		request_finish(steal_pointer(&conn->intake.refused));
	/* The write of a request in flight must not happen after the client has seen the connection
	 * close. If the connection became dirty here, it is settled again. */
	if (conn->dirty || conn->queue.in_flight > 0 || transport_sends(transport) ||
	    tls_transport_is_working(conn) || conn_run_linger(conn))
		return;
	if (transport_receives(transport)) {
		transport_say_end(transport);
		shutdown(transport->fd, SHUT_RDWR);
		loop_cancel(conn->worker->loop, &transport->recv_op);
		return;
	}
	conn_run_free(conn);
}

/* Returns whether nothing waits for the end of a send of replies. Only over unix sockets: over TCP,
 * a socket often has no room, and the count of requests under way would be wrong. */
static bool
conn_run_may_be_quiet(const struct conn *conn)
{
	return conn->life == CONN_SERVES && !conn->paused && !conn->queue.hungry.first &&
	       !conn->transport.tls && !conn->transport.kernel_tls &&
	       conn->identity->kind == IDENTITY_UNIX;
}

void
conn_run_settle(struct conn *conn)
{
	if (conn->queue.hungry.first)
		dispatch_feed(conn);
	if (outbox_has_work(&conn->outbox, &conn->transport))
		outbox_work(&conn->outbox, &conn->transport, conn_run_may_be_quiet(conn));
	/* Since the send began, in this turn or in an earlier one, something came to wait for its
	 * end. */
	if (conn->outbox.quiet && (conn->outbox.ready.first || !conn_run_may_be_quiet(conn)))
		conn->worker->hurried = true;
	if (conn->paused && !conn_is_closing(conn))
		conn_run_resume(conn);
	if (__builtin_expect(conn->transport.key_bytes != 0, 0))
		tls_transport_check_keys(conn);
	if (conn->life <= CONN_SERVES)
		return;
	if (!conn_is_closing(conn))
		conn_run_drain(conn);
	if (conn_is_closing(conn))
		conn_run_end(conn);
}
