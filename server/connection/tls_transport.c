/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/tls_transport.h"

#include "server/access/identity.h"
#include "server/connection/conn.h"
#include "server/connection/handshakes.h"
#include "server/connection/transport.h"

#include "common/container_of.h"
#include "nbd/tls/ktls.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most encrypted bytes in one receive: three full records. */
#define INPUT_SIZE ((size_t)3 * (16384 + 256))

/* Encrypted bytes in one send: seven full records. */
#define OUTPUT_SIZE (7 * TLS_ROOM)

/* Most of them that a worker keeps. */
#define IDLE_OUTPUTS 4

struct idle_output {
	struct idle_output *next;
};

/* What GnuTLS takes for a session, roughly. */
#define SESSION_MEMORY ((size_t)48 << 10)

struct tls_transport {
	struct handshake_job job; /* has the session; .input: received, not decrypted yet; .output:
				     encrypted, to be sent, .bytes NULL: nothing */
	void (*secured)(struct conn *conn);
	bool shaking;      /* the handshake is not over */
	bool working;      /* a step of it is under way on another thread */
	bool asked_kernel; /* whether it takes over */
	struct msghdr message;
	struct iovec part;
	uint8_t bytes[INPUT_SIZE];
};

size_t
tls_transport_memory(void)
{
	return sizeof(struct tls_transport) + OUTPUT_SIZE + SESSION_MEMORY;
}

static void
tls_transport_give_output(struct tls_transport *tls)
{
	struct tls_outputs *idle = &tls->job.worker->tls_outputs;
	struct idle_output *output = (struct idle_output *)tls->job.output.bytes;

	tls->job.output = (struct nbd_output){.bytes = NULL};
	if (!output || idle->count >= IDLE_OUTPUTS) {
		free(output);
		return;
	}
	output->next = idle->first;
	idle->first = output;
	idle->count++;
}

void
tls_transport_free(struct tls_transport *tls)
{
	if (!tls)
		return;
	tls_session_free(tls->job.session);
	tls_transport_give_output(tls);
	free(tls);
}

static bool
tls_transport_take_output(struct tls_transport *tls)
{
	struct tls_outputs *idle = &tls->job.worker->tls_outputs;
	struct idle_output *output = idle->first;

	if (tls->job.output.bytes)
		return true;
	if (output) {
		idle->first = output->next;
		idle->count--;
	} else {
		output = malloc(OUTPUT_SIZE);
	}
	tls->job.output =
		(struct nbd_output){.bytes = (uint8_t *)output, .size = output ? OUTPUT_SIZE : 0};
	return output;
}

void
tls_transport_free_outputs(struct worker *worker)
{
	struct tls_outputs *idle = &worker->tls_outputs;

	while (idle->first) {
		struct idle_output *output = idle->first;

		idle->first = output->next;
		free(output);
	}
	idle->count = 0;
}

static struct conn *
tls_transport_conn(struct transport *transport)
{
	return container_of(transport, struct conn, transport);
}

static void
tls_transport_out_of_memory(struct conn *conn)
{
	conn_warn(conn, "there is no memory for TLS");
	conn_abort(conn);
}

/* Aborts or closes the connection, and the log says why the session has failed. */
static void
tls_transport_fail(struct conn *conn, void (*end)(struct conn *conn))
{
	const struct tls_session *session = conn->transport.tls->job.session;
	char reason[320];

	snprintf(reason, sizeof(reason), "TLS: %s",
		 session ? tls_session_reason(session) : "out of memory");
	conn_warn(conn, reason);
	end(conn);
}

/* ---- the kernel */

void
tls_transport_check_keys(struct conn *conn)
{
	const struct transport *transport = &conn->transport;

	if (conn->life != CONN_SERVES || (transport->bytes_in < transport->key_bytes &&
					  transport->bytes_out < transport->key_bytes))
		return;
	conn_warn(
		conn,
		"TLS: its keys have encrypted as much as is safe, and the kernel can't change them: the client can connect again");
	/* Without refusals: the kernel's client makes an error of one (ESHUTDOWN), but sends
	 * requests that were not answered again when it has another connection. */
	conn_close(conn);
}

/* Returns whether the server's options let the kernel have this session. */
static bool
tls_transport_may_be_kernel(const struct conn *conn, char reason[KTLS_REASON_MAX])
{
	enum kernel_tls use = conn->worker->config->kernel_tls;

	if (use == KERNEL_TLS_ON ||
	    (use == KERNEL_TLS_AUTO && !ktls_keys_change(conn->transport.tls->job.session)))
		return true;
	snprintf(reason, KTLS_REASON_MAX, "%s",
		 use == KERNEL_TLS_OFF ? "tls-kernel=off"
				       : "the kernel can't follow changes of its keys: tls-kernel");
	return false;
}

/* Lets the kernel take over, if it can and now is the moment for it. True: it has, or the
 * connection is aborted. */
static bool
tls_transport_ask_kernel(struct conn *conn)
{
	struct transport *transport = &conn->transport;
	struct tls_transport *tls = transport->tls;
	struct tls_session *session = tls->job.session;
	char reason[KTLS_REASON_MAX];
	int r;

	if (tls->asked_kernel || transport_sends(transport) || tls_transport_has_input(tls) ||
	    !tls_session_at_record(session))
		return false;
	tls->asked_kernel = true;
	r = tls_transport_may_be_kernel(conn, reason) ? ktls_begin(session, transport->fd, reason)
						      : 1;
	if (r < 0) {
		conn_warn(conn, "the kernel took only a part of the TLS session");
		conn_abort(conn);
		return true;
	}
	if (r > 0) {
		snprintf(conn->security, sizeof(conn->security), "%s user space (%s)",
			 tls_session_describe(session), reason);
		return false;
	}
	snprintf(conn->security, sizeof(conn->security), "%s kernel",
		 tls_session_describe(session));
	transport->kernel_tls = true;
	transport->key_bytes = ktls_bytes(ktls_record_limit(session));
	transport->recv_op.partly = transport->send_op.partly = true;
	transport_be_plain(transport);
	transport->tls = NULL;
	tls_transport_free(tls);
	return true;
}

/* ---- receiving */

bool
tls_transport_has_input(const struct tls_transport *tls)
{
	return tls->job.input.length > 0 || tls_session_has_data(tls->job.session);
}

/* Receives encrypted bytes, after those that are left, which move to the front. */
static void
tls_transport_fill(struct transport *transport)
{
	struct tls_transport *tls = transport->tls;
	struct tls_input *input = &tls->job.input;

	if (input->length > 0 && input->bytes != tls->bytes)
		memmove(tls->bytes, input->bytes, input->length);
	input->bytes = tls->bytes;
	loop_recv(transport->loop, &transport->recv_op, transport->fd, tls->bytes + input->length,
		  INPUT_SIZE - input->length, false);
}

/* Decrypts what has come. Returns the bytes, or if there are none, 0 or -ENODATA as
 * transport_receive(). */
static ssize_t
tls_transport_decrypt(struct conn *conn, uint8_t *to, size_t size)
{
	struct tls_transport *tls = conn->transport.tls;
	enum tls_result result = TLS_DONE;
	size_t length = 0, n;

	while (length < size && result == TLS_DONE) {
		result = tls_session_read(tls->job.session, &tls->job.input, to + length,
					  size - length, &n);
		length += n;
	}
	if (length > 0)
		return (ssize_t)length;
	if (result == TLS_FAILED)
		tls_transport_fail(conn, conn_abort);
	return result == TLS_CLOSED ? -ENODATA : 0;
}

static ssize_t
tls_transport_receive(struct transport *transport, void *to, size_t size, bool all)
{
	struct conn *conn = tls_transport_conn(transport);
	const struct tls_transport *tls = transport->tls;
	ssize_t n = tls->shaking ? 0 : tls_transport_decrypt(conn, to, size);

	if (n != 0 || conn_is_closing(conn))
		return n;
	/* Nothing is left unread. */
	if (!tls->shaking && transport->drained)
		conn->paused_since = 0;
	if (tls->shaking || !tls_transport_ask_kernel(conn))
		tls_transport_fill(transport);
	else if (!transport->lost)
		return transport_receive(transport, to, size, all);
	return 0;
}

static void
tls_transport_shake(struct conn *conn);

static void
tls_transport_on_input(struct completion *completion, int result)
{
	struct transport *transport =
		container_of(completion, struct transport, recv_op.completion);
	struct tls_transport *tls = transport->tls;
	struct tls_input *input = &tls->job.input;

	transport->recv_op.active = false;
	if (result <= 0) {
		transport->received(transport, result);
		return;
	}
	transport->bytes_in += (size_t)result;
	transport->drained = (size_t)result < INPUT_SIZE - input->length;
	input->length += (size_t)result;
	if (tls->shaking)
		tls_transport_shake(tls_transport_conn(transport));
	else
		transport->received(transport, TRANSPORT_ENCRYPTED);
}

/* ---- sending */

static void
tls_transport_send_output(struct transport *transport)
{
	struct tls_transport *tls = transport->tls;

	tls->part = (struct iovec){tls->job.output.bytes, tls->job.output.used};
	tls->message = (struct msghdr){.msg_iov = &tls->part, .msg_iovlen = 1};
	loop_send(transport->loop, &transport->send_op, transport->fd, &tls->message);
}

/* Copies up to `size` bytes from the front of the message. */
static size_t
tls_transport_gather(const struct msghdr *message, uint8_t *to, size_t size)
{
	size_t have = 0;

	for (size_t i = 0; i < message->msg_iovlen && have < size; i++) {
		const struct iovec *part = &message->msg_iov[i];
		size_t n = part->iov_len < size - have ? part->iov_len : size - have;

		memcpy(to + have, part->iov_base, n);
		have += n;
	}
	return have;
}

/* Encrypts the message as far as the output has room, in full records: one from its buffer if that
 * has enough for it; else headers and data of several replies together. 0 or -EIO. */
static int
tls_transport_encrypt(struct transport *transport)
{
	struct tls_transport *tls = transport->tls;
	struct msghdr *message = &transport->message;
	uint8_t together[TLS_RECORD_DATA];
	enum tls_result result;
	size_t taken;

	while (message->msg_iovlen > 0) {
		const void *data = message->msg_iov->iov_base;
		size_t length = message->msg_iov->iov_len;

		if (length < TLS_RECORD_DATA) {
			length = tls_transport_gather(message, together, sizeof(together));
			data = together;
		}
		result =
			tls_session_write(tls->job.session, data, length, &taken, &tls->job.output);
		if (result == TLS_FAILED)
			return -EIO;
		if (result == TLS_FULL)
			return 0;
		if (!message_advance(message, taken))
			return 0;
	}
	return 0;
}

static void
tls_transport_send(struct transport *transport)
{
	struct conn *conn = tls_transport_conn(transport);

	if (!tls_transport_take_output(transport->tls))
		tls_transport_out_of_memory(conn);
	else if (tls_transport_encrypt(transport) < 0)
		tls_transport_fail(conn, conn_abort);
	else
		tls_transport_send_output(transport);
}

static void
tls_transport_shaken(struct conn *conn);

static void
tls_transport_on_sent(struct completion *completion, int result)
{
	struct transport *transport =
		container_of(completion, struct transport, send_op.completion);
	struct tls_transport *tls = transport->tls;
	size_t taken = result > 0 ? (size_t)result : 0;

	transport->send_op.active = false;
	transport->bytes_out += taken;
	if (result < 0 && result != -EINTR && result != -EAGAIN) {
		transport->sent(transport, result);
		return;
	}
	if (!transport->lost && message_advance(&tls->message, taken)) {
		loop_send(transport->loop, &transport->send_op, transport->fd, &tls->message);
		return;
	}
	tls->job.output.used = 0;
	if (tls->shaking) {
		tls_transport_shaken(tls_transport_conn(transport));
		return;
	}
	if (!transport->lost && transport->message.msg_iovlen > 0) {
		tls_transport_send(transport);
		if (!transport->lost)
			return;
	} else {
		/* An idle connection has none. */
		tls_transport_give_output(tls);
	}
	transport->sent(transport, 0);
}

static void
tls_transport_say_end(struct transport *transport)
{
	uint8_t bytes[256];
	struct nbd_output output = {.bytes = bytes, .size = sizeof(bytes)};

	if (transport->tls->shaking)
		return;
	tls_session_close(transport->tls->job.session, &output);
	/* Without waiting: a client that takes no more bytes sees only the close. */
	send(transport->fd, bytes, output.used, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- the handshake */

static void
tls_transport_shake(struct conn *conn)
{
	struct tls_transport *tls = conn->transport.tls;

	assert(tls->shaking && !tls->working);
	conn_mark_dirty(conn);
	if (!tls_transport_take_output(tls)) {
		tls_transport_out_of_memory(conn);
		return;
	}
	tls->working = true;
	handshakes_step(conn->worker->config->handshakes, &tls->job);
}

bool
tls_transport_is_working(struct conn *conn)
{
	struct tls_transport *tls = conn->transport.tls;

	if (!tls || !tls->working)
		return false;
	if (conn->transport.lost)
		atomic_store(&tls->job.abandoned, true);
	return true;
}

bool
tls_transport_shakes(const struct tls_transport *tls)
{
	return tls->shaking;
}

/* Who the client is, as it has proven. 0 or -errno; -EINVAL: that is not certain. */
static int
tls_transport_note_identity(struct conn *conn)
{
	struct tls_identity proven;
	int r = tls_session_identity(conn->transport.tls->job.session, &proven);

	if (r == 0 && proven.user)
		r = identity_set_psk(conn->identity, proven.user);
	else if (r == 0 && (proven.name || proven.dn || proven.names))
		r = identity_set_certificate(conn->identity, proven.name, proven.dn, proven.names);
	tls_identity_fini(&proven);
	return r;
}

static void
tls_transport_begin_data(struct conn *conn)
{
	struct tls_transport *tls = conn->transport.tls;
	int r;

	tls->shaking = false;
	tls_transport_give_output(tls);
	/* Nobody can disconnect a client that is not known yet. */
	if (!handshakes_know(conn->worker->config->handshakes, tls->job.session)) {
		conn_warn(
			conn,
			"TLS: the server's keys or certificates changed during the handshake: the client can connect again");
		conn_close(conn);
		return;
	}
	snprintf(conn->security, sizeof(conn->security), "%s user space",
		 tls_session_describe(tls->job.session));
	r = tls_transport_note_identity(conn);
	if (r == 0) {
		tls->secured(conn);
	} else if (r == -EINVAL) {
		conn_warn(
			conn,
			"TLS: the client's certificate has two common names, and could pass as either");
		conn_close(conn);
	} else {
		tls_transport_out_of_memory(conn);
	}
}

/* A step of the handshake was delivered, or its output is sent. */
static void
tls_transport_shaken(struct conn *conn)
{
	struct transport *transport = &conn->transport;
	struct tls_transport *tls = transport->tls;

	conn_mark_dirty(conn);
	tls->working = false;
	if (transport->lost)
		return;
	/* An alert is sent, too. */
	if (tls->job.output.used > 0)
		tls_transport_send_output(transport);
	else if (tls->job.result == TLS_FULL)
		tls_transport_shake(conn);
	else if (tls->job.result == TLS_DONE)
		tls_transport_begin_data(conn);
	else if (tls->job.result != TLS_MORE)
		tls_transport_fail(conn, conn_close);
	else if (!conn_is_closing(conn))
		tls_transport_fill(transport);
}

static void
tls_transport_stepped(struct worker *worker, struct worker_message *message)
{
	(void)worker;
	tls_transport_shaken(message->data);
}

int
tls_transport_begin(struct conn *conn, void (*secured)(struct conn *conn))
{
	static const struct transport_way way = {
		.receive = tls_transport_receive,
		.send = tls_transport_send,
		.say_end = tls_transport_say_end,
	};
	struct tls_transport *tls = malloc(sizeof(*tls));

	if (!tls)
		return -ENOMEM;
	/* The buffer, which is most of it, needs no clearing. */
	memset(tls, 0, offsetof(struct tls_transport, bytes));
	tls->job.message = (struct worker_message){.deliver = tls_transport_stepped, .data = conn};
	tls->job.worker = conn->worker;
	tls->job.input.bytes = tls->bytes;
	tls->shaking = true;
	tls->secured = secured;
	conn->transport.tls = tls;
	conn->transport.way = &way;
	conn->transport.recv_op.completion.done = tls_transport_on_input;
	conn->transport.send_op.completion.done = tls_transport_on_sent;
	return 0;
}
