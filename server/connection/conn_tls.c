/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/conn_tls.h"

#include "server/access/identity.h"
#include "server/connection/conn_state.h"

#include "nbd/tls/ktls.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Encrypted bytes in one send: seven full records. */
#define OUTPUT_SIZE (7 * TLS_ROOM)

/* Most of them that a worker keeps. */
#define IDLE_OUTPUTS 4

struct idle_output {
	struct idle_output *next;
};

/* What GnuTLS takes for a session, roughly. */
#define SESSION_MEMORY ((size_t)48 << 10)

size_t
conn_tls_memory(void)
{
	return sizeof(struct conn_tls) + OUTPUT_SIZE + SESSION_MEMORY;
}

int
conn_tls_begin(struct conn *conn,
	       void (*deliver)(struct worker *worker, struct worker_message *message))
{
	struct conn_tls *tls = malloc(sizeof(*tls));

	if (!tls)
		return -ENOMEM;
	/* The buffer, which is most of it, needs no clearing. */
	memset(tls, 0, offsetof(struct conn_tls, bytes));
	tls->job.message = (struct worker_message){.deliver = deliver, .data = conn};
	tls->job.worker = conn->worker;
	tls->job.input.bytes = tls->bytes;
	tls->shaking = true;
	conn->tls = tls;
	return 0;
}

static void
give_output(struct conn_tls *tls)
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
conn_tls_free(struct conn_tls *tls)
{
	if (!tls)
		return;
	tls_session_free(tls->job.session);
	give_output(tls);
	free(tls);
}

static bool
take_output(struct conn_tls *tls)
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
conn_tls_free_outputs(struct worker *worker)
{
	struct tls_outputs *idle = &worker->tls_outputs;

	while (idle->first) {
		struct idle_output *output = idle->first;

		idle->first = output->next;
		free(output);
	}
	idle->count = 0;
}

static void
out_of_memory(struct conn *conn)
{
	conn_warn(conn, "there is no memory for TLS");
	conn_abort(conn);
}

void
conn_tls_fail(struct conn *conn)
{
	char reason[320];

	snprintf(reason, sizeof(reason), "TLS: %s", tls_session_reason(conn->tls->job.session));
	conn_warn(conn, reason);
	conn_abort(conn);
}

void
conn_tls_warn_of_end(const struct conn *conn, int result)
{
	if (conn->tls && conn->tls->shaking && !conn_is_closing(conn) && result != -ECANCELED)
		conn_warn(conn, "TLS: the client has left in the handshake: it may not trust this "
				"server");
	else
		conn_warn_of_error(conn, result);
}

/* ---- receiving */

/* What is left of the input moves to the front. */
static void
compact(struct conn_tls *tls)
{
	struct tls_input *input = &tls->job.input;

	if (input->length > 0 && input->bytes != tls->bytes)
		memmove(tls->bytes, input->bytes, input->length);
	input->bytes = tls->bytes;
}

void
conn_tls_receive(struct conn *conn)
{
	struct conn_tls *tls = conn->tls;

	compact(tls);
	loop_recv(conn->worker->loop, &conn->recv_op, conn->fd, tls->bytes + tls->job.input.length,
		  CONN_TLS_INPUT - tls->job.input.length, false);
}

void
conn_tls_received(struct conn *conn, size_t length)
{
	struct tls_input *input = &conn->tls->job.input;

	conn->tls->short_receive = length < CONN_TLS_INPUT - input->length;
	input->length += length;
}

enum tls_result
conn_tls_read(struct conn *conn, void *to, size_t size, size_t *length)
{
	struct conn_tls *tls = conn->tls;
	enum tls_result result = TLS_DONE;
	size_t n;

	*length = 0;
	while (*length < size && result == TLS_DONE) {
		result = tls_session_read(tls->job.session, &tls->job.input,
					  (uint8_t *)to + *length, size - *length, &n);
		*length += n;
	}
	return result;
}

bool
conn_tls_has_input(const struct conn *conn)
{
	return conn->tls->job.input.length > 0 || tls_session_has_data(conn->tls->job.session);
}

/* ---- sending */

static void
send_output(struct conn *conn)
{
	struct conn_tls *tls = conn->tls;

	tls->part = (struct iovec){tls->job.output.bytes, tls->job.output.used};
	tls->message = (struct msghdr){.msg_iov = &tls->part, .msg_iovlen = 1};
	loop_send(conn->worker->loop, &conn->send_op, conn->fd, &tls->message);
}

/* Copies up to `size` bytes from the front of the message. */
static size_t
gather(const struct msghdr *message, uint8_t *to, size_t size)
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
 * has enough for it; else headers and data of several replies together.  0 or -EIO. */
static int
encrypt(struct conn *conn)
{
	struct conn_tls *tls = conn->tls;
	struct msghdr *message = &conn->message;
	uint8_t together[TLS_RECORD_DATA];
	enum tls_result result;
	size_t taken;

	while (message->msg_iovlen > 0) {
		const void *data = message->msg_iov->iov_base;
		size_t length = message->msg_iov->iov_len;

		if (length < TLS_RECORD_DATA) {
			length = gather(message, together, sizeof(together));
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

void
conn_tls_send(struct conn *conn)
{
	if (!take_output(conn->tls)) {
		out_of_memory(conn);
		return;
	}
	if (encrypt(conn) < 0) {
		conn_tls_fail(conn);
		return;
	}
	send_output(conn);
}

enum conn_tls_next
conn_tls_sent(struct conn *conn, size_t length)
{
	struct conn_tls *tls = conn->tls;

	if (!conn->lost && message_advance(&tls->message, length)) {
		loop_send(conn->worker->loop, &conn->send_op, conn->fd, &tls->message);
		return CONN_TLS_WAITS;
	}
	tls->job.output.used = 0;
	if (tls->shaking)
		return conn_tls_shaken(conn);
	if (!conn->lost && conn->message.msg_iovlen > 0) {
		conn_tls_send(conn);
		return conn->lost ? CONN_TLS_SENT : CONN_TLS_WAITS;
	}
	/* An idle connection has none. */
	give_output(tls);
	return CONN_TLS_SENT;
}

void
conn_tls_say_end(struct conn *conn)
{
	struct conn_tls *tls = conn->tls;
	uint8_t bytes[256];
	struct nbd_output output = {.bytes = bytes, .size = sizeof(bytes)};

	if (conn->said_end || conn->lost || (tls ? tls->shaking : !conn->kernel_tls))
		return;
	conn->said_end = true;
	/* Without waiting: a client that takes no more bytes sees only the close. */
	if (!tls) {
		ktls_close(conn->fd);
		return;
	}
	tls_session_close(tls->job.session, &output);
	send(conn->fd, bytes, output.used, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- the handshake */

void
conn_tls_shake(struct conn *conn)
{
	struct conn_tls *tls = conn->tls;

	assert(tls->shaking && !tls->working);
	if (!take_output(tls)) {
		out_of_memory(conn);
		return;
	}
	tls->working = true;
	handshakes_step(conn->worker->config->handshakes, &tls->job);
}

bool
conn_tls_is_working(struct conn *conn)
{
	struct conn_tls *tls = conn->tls;

	if (!tls || !tls->working)
		return false;
	if (conn->lost)
		atomic_store(&tls->job.abandoned, true);
	return true;
}

static void
refuse(struct conn *conn)
{
	char reason[320];
	struct tls_session *session = conn->tls->job.session;

	snprintf(reason, sizeof(reason), "TLS: %s",
		 session ? tls_session_reason(session) : "out of memory");
	conn_warn(conn, reason);
	conn_close(conn);
}

/* Who the client is, as it has proven.  0 or -errno; -EINVAL: that is not certain. */
static int
note_identity(struct conn *conn)
{
	struct tls_identity proven;
	int r = tls_session_identity(conn->tls->job.session, &proven);

	if (r == 0 && proven.user)
		r = identity_set_psk(conn->identity, proven.user);
	else if (r == 0 && (proven.name || proven.dn || proven.names))
		r = identity_set_certificate(conn->identity, proven.name, proven.dn, proven.names);
	tls_identity_fini(&proven);
	return r;
}

static enum conn_tls_next
begin_data(struct conn *conn)
{
	struct conn_tls *tls = conn->tls;

	tls->shaking = false;
	give_output(tls);
	/* Nobody can disconnect a client that is not known yet. */
	if (!handshakes_know(conn->worker->config->handshakes, tls->job.session)) {
		conn_warn(conn, "TLS: the server's certificates and keys have changed during the "
				"handshake: the client may connect again");
		conn_close(conn);
		return CONN_TLS_WAITS;
	}
	snprintf(conn->security, sizeof(conn->security), "%s user space",
		 tls_session_describe(tls->job.session));
	switch (note_identity(conn)) {
	case 0: return CONN_TLS_BEGUN;
	case -EINVAL:
		conn_warn(conn, "TLS: the client's certificate has two common names, and could "
				"pass as either");
		conn_close(conn);
		return CONN_TLS_WAITS;
	default: out_of_memory(conn); return CONN_TLS_WAITS;
	}
}

enum conn_tls_next
conn_tls_shaken(struct conn *conn)
{
	struct conn_tls *tls = conn->tls;

	tls->working = false;
	if (conn->lost)
		return CONN_TLS_WAITS;
	/* An alert is sent, too. */
	if (tls->job.output.used > 0) {
		send_output(conn);
		return CONN_TLS_WAITS;
	}
	switch (tls->job.result) {
	case TLS_MORE: return CONN_TLS_RECEIVES;
	case TLS_FULL: conn_tls_shake(conn); return CONN_TLS_WAITS;
	case TLS_DONE: return begin_data(conn);
	default: refuse(conn); return CONN_TLS_WAITS;
	}
}

/* ---- the kernel */

void
conn_tls_check_keys(struct conn *conn)
{
	if (conn->life != CONN_SERVES ||
	    (conn->bytes_in < conn->key_bytes && conn->bytes_out < conn->key_bytes))
		return;
	conn_warn(conn, "TLS: its keys have encrypted as much as they may, and the kernel can't "
			"change them: the client may connect again");
	/* Without refusals: the kernel's client makes an error of one (ESHUTDOWN), but sends
	 * requests that were not answered again when it has another connection. */
	conn_close(conn);
}

/* Whether the server's options let the kernel have this session. */
static bool
may_be_kernel(const struct conn *conn, char reason[KTLS_REASON_MAX])
{
	enum kernel_tls use = conn->worker->config->kernel_tls;

	if (use == KERNEL_TLS_ON ||
	    (use == KERNEL_TLS_AUTO && !ktls_keys_change(conn->tls->job.session)))
		return true;
	snprintf(reason, KTLS_REASON_MAX, "%s",
		 use == KERNEL_TLS_OFF ? "tls-kernel=off"
				       : "the kernel can't follow changes of its keys: tls-kernel");
	return false;
}

void
conn_tls_ask_kernel(struct conn *conn)
{
	struct conn_tls *tls = conn->tls;
	struct tls_session *session = tls->job.session;
	char reason[KTLS_REASON_MAX];
	int r;

	if (tls->asked_kernel || tls->shaking || conn->send_op.active ||
	    tls->job.input.length > 0 || tls_session_has_data(session) ||
	    !tls_session_at_record(session))
		return;
	tls->asked_kernel = true;
	r = may_be_kernel(conn, reason) ? ktls_begin(session, conn->fd, reason) : 1;
	if (r < 0) {
		conn_warn(conn, "the kernel took only a part of the TLS session");
		conn_abort(conn);
		return;
	}
	if (r > 0) {
		snprintf(conn->security, sizeof(conn->security), "%s user space (%s)",
			 tls_session_describe(session), reason);
		return;
	}
	snprintf(conn->security, sizeof(conn->security), "%s kernel",
		 tls_session_describe(session));
	conn->kernel_tls = true;
	conn->key_bytes = ktls_bytes(ktls_record_limit(session));
	conn->recv_op.partly = conn->send_op.partly = true;
	conn->tls = NULL;
	conn_tls_free(tls);
}
