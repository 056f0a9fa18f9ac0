/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/outbox.h"

#include "server/request/holes.h"
#include "server/request/probes.h"
#include "server/request/traffic.h"

#include "common/cleanup.h"

static unsigned int
outbox_traffic_op(uint16_t type)
{
	static const uint8_t ops[] = {
		[NBD_CMD_READ] = IO_READ,         [NBD_CMD_WRITE] = IO_WRITE,
		[NBD_CMD_DISC] = TRAFFIC_OTHER,   [NBD_CMD_FLUSH] = IO_FLUSH,
		[NBD_CMD_TRIM] = IO_DISCARD,      [NBD_CMD_CACHE] = TRAFFIC_CACHE,
		[NBD_CMD_WRITE_ZEROES] = IO_ZERO, [NBD_CMD_BLOCK_STATUS] = TRAFFIC_BLOCK_STATUS,
	};

	return type < sizeof(ops) ? ops[type] : TRAFFIC_OTHER;
}

void
outbox_add(struct outbox *outbox, struct request *request)
{
	struct traffic *traffic = request->queue->traffic;
	unsigned int op = outbox_traffic_op(request->nbd.type);

	/* Each request that is answered comes by here, once: merged, a hole, refused or failed. */
	traffic_count(traffic, op, request_now(request->queue->pool) - request->begun);
	if (request->result < 0)
		traffic_add(&traffic->errors[op], 1);
	else
		traffic_add(&traffic->bytes[op], request->nbd.length);
	request_list_add(&outbox->ready, request);
}

void
outbox_add_early(struct outbox *outbox, struct request *request)
{
	struct request **link = &outbox->early;

	if (request->early.listed)
		return;
	while (*link)
		link = &(*link)->early.next;
	request->early.listed = true;
	request->early.next = NULL;
	*link = request;
}

void
outbox_remove_early(struct outbox *outbox, struct request *request)
{
	struct request **link = &outbox->early;

	if (!request->early.listed)
		return;
	while (*link != request)
		link = &(*link)->early.next;
	*link = request->early.next;
	request->early.listed = false;
}

static void
outbox_send_early(struct outbox *outbox, struct transport *transport)
{
	struct request *request = outbox->early;
	struct request_early *early;
	uint32_t length;
	size_t head;

	while (request && outbox_unsent(request) < OUTBOX_EARLY)
		request = request->early.next;
	if (!request)
		return;
	early = &request->early;
	length = outbox_unsent(request);
	head = nbd_reply_data(&request->queue->session, &request->nbd,
			      request->nbd.offset + early->sent, length, false, outbox->early_head);
	outbox->parts[0] = (struct iovec){outbox->early_head, head};
	outbox->parts[1] = (struct iovec){request->data + early->sent, length};
	early->sent += length;
	request_keep(request);
	outbox->early_sending = request;
	transport_send(transport, outbox->parts, 2);
}

/* Counts the requests as answered now: the end of the send may be noticed late. Much data is not
 * sent quietly, so that its buffers are free soon. */
static void
outbox_send_quietly(struct outbox *outbox, struct transport *transport, unsigned int parts)
{
	size_t length = 0;

	for (unsigned int i = 0; i < parts; i++)
		length += outbox->parts[i].iov_len;
	if (length > OUTBOX_QUIET) {
		transport_send(transport, outbox->parts, parts);
		return;
	}
	for (struct request *request = outbox->sending; request; request = request->next) {
		PROBE(replied, request);
		request_count_answered(request);
	}
	outbox->quiet = true;
	transport_send_quietly(transport, outbox->parts, parts, length);
}

static void
outbox_send(struct outbox *outbox, struct transport *transport, bool quietly)
{
	unsigned int parts = 0;
	struct request **link;

	outbox->sending = outbox->ready.first;
	for (link = &outbox->sending; *link && parts + 2 * REQUEST_PARTS <= OUTBOX_PARTS;
	     link = &(*link)->next) {
		struct request *request = *link;

		if (request->part_count > 0) {
			parts += holes_gather(request, outbox->parts + parts);
			quietly = false;
			continue;
		}
		if (request->head_length)
			outbox->parts[parts++] =
				(struct iovec){request->head, request->head_length};
		if (request->data_length)
			outbox->parts[parts++] =
				(struct iovec){request->data, request->data_length};
	}
	outbox->ready.first = *link;
	*link = NULL;
	if (!outbox->ready.first)
		request_list_init(&outbox->ready);
	else
		quietly = false;
	if (quietly && parts <= OUTBOX_QUIET_PARTS)
		outbox_send_quietly(outbox, transport, parts);
	else
		transport_send(transport, outbox->parts, parts);
}

void
outbox_work(struct outbox *outbox, struct transport *transport, bool quietly)
{
	if (transport->lost || outbox->unheard) {
		while (outbox->ready.first) {
			struct request *request = outbox->ready.first;

			outbox->ready.first = request->next;
			request_finish(request);
		}
		request_list_init(&outbox->ready);
		/* They could not be encrypted. */
		if (!transport_sends(transport))
			outbox_sent(outbox, transport);
	} else if (transport_sends(transport) || outbox->sending) {
		return;
	} else if (outbox->ready.first) {
		outbox_send(outbox, transport, quietly);
	} else if (outbox->early) {
		outbox_send_early(outbox, transport);
	}
}

void
outbox_sent(struct outbox *outbox, const struct transport *transport)
{
	struct request *next;

	if (outbox->early_sending)
		request_leave(steal_pointer(&outbox->early_sending));
	for (struct request *request = outbox->sending; outbox->quiet && request; request = next) {
		next = request->next;
		request_free(request);
		outbox->sending = next;
	}
	outbox->quiet = false;
	for (struct request *request = outbox->sending; request; request = next) {
		next = request->next;
		if (!transport->lost && !outbox->unheard)
			PROBE(replied, request);
		request_finish(request);
	}
	outbox->sending = NULL;
}
