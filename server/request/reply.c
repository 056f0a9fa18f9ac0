/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/request/reply.h"

#include "server/request/holes.h"
#include "server/request/request.h"

void
reply_write_error(struct request *request, enum nbd_error error, const char *message)
{
	request->result = -(int)error;
	request->data_length = 0;
	request->part_count = 0;
	request->head_length = nbd_reply_error(&request->queue->session, &request->nbd, error,
					       message, request->head);
}

/* Writes the header of a read's last data, without the first `sent` bytes. */
static void
reply_write_data(struct request *request, uint32_t sent)
{
	request->data_length = request->nbd.length - sent;
	request->head_length =
		nbd_reply_data(&request->queue->session, &request->nbd, request->nbd.offset + sent,
			       (uint32_t)request->data_length, true, request->head);
}

void
reply_write_rest(struct request *request, uint32_t sent)
{
	request->queue->read_bytes += request->nbd.length;
	request->data += sent;
	reply_write_data(request, sent);
}

void
reply_write(struct request *request, int result)
{
	struct request_queue *queue = request->queue;

	if (result < 0) {
		buffers_not_filled(&request->leader->buffer);
		reply_write_error(request, nbd_reply_errno(&request->nbd, result), NULL);
		return;
	}
	if (request->nbd.type == NBD_CMD_READ)
		queue->read_bytes += request->nbd.length;
	if (request->part_count > 0) {
		holes_reply(request);
	} else if (request->nbd.type == NBD_CMD_READ && request->nbd.length > 0) {
		reply_write_data(request, 0);
	} else {
		if (request->nbd.type == NBD_CMD_WRITE)
			queue->write_bytes += request->nbd.length;
		request->data_length = 0;
		request->head_length =
			nbd_reply_done(&queue->session, &request->nbd, request->head);
	}
}
