/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/transport.h"

#include "common/container_of.h"
#include "nbd/tls/ktls.h"

#include <errno.h>

static void
transport_plain_on_input(struct completion *completion, int result)
{
	struct transport *transport =
		container_of(completion, struct transport, recv_op.completion);

	transport->recv_op.active = false;
	if (result > 0) {
		transport->bytes_in += (size_t)result;
		transport->drained = (size_t)result < transport->room;
	}
	transport->received(transport, result);
}

static void
transport_plain_on_sent(struct completion *completion, int result)
{
	struct transport *transport =
		container_of(completion, struct transport, send_op.completion);
	size_t taken = result > 0 ? (size_t)result : 0;
	int error = result < 0 && result != -EINTR && result != -EAGAIN ? result : 0;

	transport->send_op.active = false;
	transport->bytes_out += taken;
	if (!error && !transport->lost && message_advance(&transport->message, taken))
		loop_send(transport->loop, &transport->send_op, transport->fd, &transport->message);
	else
		transport->sent(transport, error);
}

static ssize_t
transport_plain_receive(struct transport *transport, void *to, size_t size, bool all)
{
	transport->room = all ? 0 : size;
	loop_recv(transport->loop, &transport->recv_op, transport->fd, to, size, all);
	return 0;
}

static void
transport_plain_send(struct transport *transport)
{
	loop_send(transport->loop, &transport->send_op, transport->fd, &transport->message);
}

static void
transport_plain_say_end(struct transport *transport)
{
	if (transport->kernel_tls)
		ktls_close(transport->fd);
}

void
transport_be_plain(struct transport *transport)
{
	static const struct transport_way plain = {
		.receive = transport_plain_receive,
		.send = transport_plain_send,
		.say_end = transport_plain_say_end,
	};

	transport->way = &plain;
	transport->recv_op.completion.done = transport_plain_on_input;
	transport->send_op.completion.done = transport_plain_on_sent;
}

void
transport_init(struct transport *transport, int fd)
{
	transport->fd = fd;
	transport_be_plain(transport);
}

size_t
transport_pending(const struct transport *transport)
{
	int result;

	return transport->recv_op.active &&
			       loop_has_result(transport->loop, &transport->recv_op, &result) &&
			       result > 0
		       ? (size_t)result
		       : 0;
}

void
transport_abort(struct transport *transport)
{
	transport->lost = true;
	/* Completes operations that wait for the peer. */
	shutdown(transport->fd, SHUT_RDWR);
	loop_cancel(transport->loop, &transport->recv_op);
	loop_cancel(transport->loop, &transport->send_op);
}

void
transport_say_end(struct transport *transport)
{
	if (transport->said_end || transport->lost)
		return;
	transport->said_end = true;
	transport->way->say_end(transport);
}
