/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/serve/negotiation.h"

#include "server/serve/conn_state.h"
#include "server/serve/peer.h"
#include "server/serve/served.h"

static void
send_output(struct conn *conn)
{
	struct conn_negotiation *negotiation = conn->negotiation;

	conn->iov[0] = (struct iovec){negotiation->bytes, negotiation->output.used};
	conn->message.msg_iov = conn->iov;
	conn->message.msg_iovlen = 1;
	loop_send(conn->worker->loop, &conn->send_op, conn->fd, &conn->message);
}

void
negotiation_start(struct conn *conn)
{
	struct conn_negotiation *negotiation = conn->negotiation;

	negotiation->output = (struct nbd_output){.bytes = negotiation->bytes,
						  .size = sizeof(negotiation->bytes)};
	nbd_handshake_init(&negotiation->handshake, &conn->worker->config->handshake);
	nbd_handshake_greet(&negotiation->handshake, &negotiation->output);
	send_output(conn);
}

static void
end_handshake(struct conn *conn, enum nbd_handshake_result result)
{
	const struct nbd_handshake *handshake = &conn->negotiation->handshake;

	if (result == NBD_HANDSHAKE_TRANSMISSION) {
		conn->session = handshake->session;
		/* facts is its first member */
		conn->served = (struct served *)(uintptr_t)handshake->session.export;
		conn->negotiation->finished = true;
		/* Others may change the image as soon as it can send requests. */
		peer_may_change(conn);
		return;
	}
	if (handshake->reason)
		conn_warn(conn, handshake->reason);
	conn_close(conn);
}

enum negotiation_next
negotiation_feed(struct conn *conn)
{
	struct conn_negotiation *negotiation = conn->negotiation;
	enum nbd_handshake_result result;
	size_t consumed;

	if (conn->send_op.active || negotiation->finished || conn_is_closing(conn))
		return NEGOTIATION_WAITS;
	result = nbd_handshake_feed(&negotiation->handshake, conn->input + conn->input_start,
				    conn->input_end - conn->input_start, &consumed,
				    &negotiation->output);
	conn->input_start += consumed;
	if (conn->input_start == conn->input_end)
		conn->input_start = conn->input_end = 0;
	if (result != NBD_HANDSHAKE_MORE && result != NBD_HANDSHAKE_FULL)
		end_handshake(conn, result);
	if (negotiation->output.used > 0) {
		send_output(conn);
		return NEGOTIATION_WAITS;
	}
	return negotiation->finished ? NEGOTIATION_OVER : NEGOTIATION_RECEIVES;
}

enum negotiation_next
negotiation_sent(struct conn *conn)
{
	struct conn_negotiation *negotiation = conn->negotiation;

	negotiation->output.used = 0;
	return negotiation->finished ? NEGOTIATION_OVER : negotiation_feed(conn);
}
