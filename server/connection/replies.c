/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/replies.h"

#include "server/connection/conn_state.h"
#include "server/connection/conn_tls.h"
#include "server/connection/early.h"
#include "server/request/holes.h"
#include "server/request/probes.h"
#include "server/request/request.h"
#include "server/request/traffic.h"
#include "server/worker/worker_contexts.h"

static unsigned int
traffic_op(uint16_t type)
{
	static const uint8_t ops[] = {
		[NBD_CMD_READ] = IO_READ,         [NBD_CMD_WRITE] = IO_WRITE,
		[NBD_CMD_DISC] = TRAFFIC_OTHER,   [NBD_CMD_FLUSH] = IO_FLUSH,
		[NBD_CMD_TRIM] = IO_DISCARD,      [NBD_CMD_CACHE] = TRAFFIC_CACHE,
		[NBD_CMD_WRITE_ZEROES] = IO_ZERO, [NBD_CMD_BLOCK_STATUS] = TRAFFIC_BLOCK_STATUS,
	};

	return type < sizeof(ops) ? ops[type] : TRAFFIC_OTHER;
}

/* Each request that is answered comes by here, once: merged, a hole, refused or failed. */
static inline void
count(const struct request *request)
{
	struct traffic *traffic = request->conn->context->traffic;
	unsigned int op = traffic_op(request->nbd.type);

	traffic_count(traffic, op, worker_now(request->conn->worker) - request->begun);
	if (request->result < 0)
		traffic_add(&traffic->errors[op], 1);
	else
		traffic_add(&traffic->bytes[op], request->nbd.length);
}

void
reply_add(struct request *request)
{
	struct conn *conn = request->conn;

	count(request);
	request->next = NULL;
	*conn->ready_tail = request;
	conn->ready_tail = &request->next;
	conn_mark_dirty(conn);
}

void
reply_write_error(struct request *request, enum nbd_error error, const char *message)
{
	request->result = -(int)error;
	request->data_length = 0;
	request->part_count = 0;
	request->head_length = nbd_reply_error(&request->conn->session, &request->nbd, error,
					       message, request->head);
}

void
reply_error(struct request *request, enum nbd_error error, const char *message)
{
	reply_write_error(request, error, message);
	reply_add(request);
}

/* Writes the header of a read's last data, without the first `sent` bytes. */
static void
write_data(struct request *request, uint32_t sent)
{
	request->data_length = request->nbd.length - sent;
	request->head_length =
		nbd_reply_data(&request->conn->session, &request->nbd, request->nbd.offset + sent,
			       (uint32_t)request->data_length, true, request->head);
}

void
reply_rest(struct request *request, uint32_t sent)
{
	request->conn->read_bytes += request->nbd.length;
	request->data += sent;
	write_data(request, sent);
	reply_add(request);
}

void
reply_result(struct request *request, int result)
{
	const struct nbd_session *session = &request->conn->session;

	if (result < 0) {
		buffers_not_filled(&request->leader->buffer);
		reply_error(request, nbd_reply_errno(&request->nbd, result), NULL);
		return;
	}
	if (request->nbd.type == NBD_CMD_READ)
		request->conn->read_bytes += request->nbd.length;
	if (request->part_count > 0) {
		holes_reply(request);
	} else if (request->nbd.type == NBD_CMD_READ && request->nbd.length > 0) {
		write_data(request, 0);
	} else {
		if (request->nbd.type == NBD_CMD_WRITE)
			request->conn->write_bytes += request->nbd.length;
		request->data_length = 0;
		request->head_length = nbd_reply_done(session, &request->nbd, request->head);
	}
	reply_add(request);
}

void
replies_send(struct conn *conn)
{
	unsigned int parts = 0;
	struct request **link;

	if (!conn->ready || conn->send_op.active || conn->sending)
		return;
	conn->sending = conn->ready;
	for (link = &conn->sending; *link && parts + 2 * REQUEST_PARTS <= CONN_PARTS;
	     link = &(*link)->next) {
		struct request *request = *link;

		if (request->part_count > 0) {
			parts += holes_gather(request, conn->iov + parts);
			continue;
		}
		if (request->head_length)
			conn->iov[parts++] = (struct iovec){request->head, request->head_length};
		if (request->data_length)
			conn->iov[parts++] = (struct iovec){request->data, request->data_length};
	}
	conn->ready = *link;
	*link = NULL;
	if (!conn->ready)
		conn->ready_tail = &conn->ready;
	conn->message.msg_iov = conn->iov;
	conn->message.msg_iovlen = parts;
	conn_send(conn);
}

void
replies_drop(struct conn *conn)
{
	while (conn->ready) {
		struct request *request = conn->ready;

		conn->ready = request->next;
		request_finish(request);
	}
	conn->ready_tail = &conn->ready;
}

void
replies_sent(struct conn *conn)
{
	struct request *next;

	conn->stuck.replies.waits = false;
	if (conn->early_sending)
		early_sent(conn);
	for (struct request *request = conn->sending; request; request = next) {
		next = request->next;
		if (!conn->lost && !conn->unheard)
			PROBE(replied, request);
		request_finish(request);
	}
	conn->sending = NULL;
}
