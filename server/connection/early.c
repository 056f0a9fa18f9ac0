/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/early.h"

#include "server/access/identity.h"
#include "server/connection/conn_state.h"
#include "server/connection/conn_tls.h"
#include "server/request/request.h"

/* The fewest bytes that are sent early at once: two chunks of the image (CHUNK_SIZE).  A disk that
 * completes more than one chunk with an interrupt would else have a small part sent first, and the
 * rest after it. */
#define EARLY_PART ((uint32_t)256 << 10)

bool
early_is_possible(const struct request *request)
{
	return request->nbd.type == NBD_CMD_READ && request->part_count == 0 &&
	       request->conn->identity->kind == IDENTITY_INET &&
	       request->conn->session.form != NBD_FORM_SIMPLE &&
	       !(request->nbd.flags & NBD_CMD_FLAG_DF);
}

static uint32_t
unsent(const struct request *request)
{
	return request->early.there - request->early.sent;
}

static void
list(struct request *request)
{
	struct request **link = &request->conn->early;

	while (*link)
		link = &(*link)->early.next;
	request->early.listed = true;
	request->early.next = NULL;
	*link = request;
}

/* Adds those bytes to the ones that are there from the beginning, if they are adjacent now. */
static bool
take_later(struct request_early *early)
{
	for (unsigned int i = 0; i < early->gap_count; i++) {
		if (early->after_gap[i].start != early->there)
			continue;
		early->there = early->after_gap[i].end;
		early->after_gap[i] = early->after_gap[--early->gap_count];
		return true;
	}
	return false;
}

/* Chunks may arrive in any order.  If there are too many after a gap, the rest of the read is sent
 * when it is complete. */
static void
arrived(struct io *io, uint64_t start, uint64_t bytes)
{
	struct request *request = request_of_io(io);
	struct request_early *early = &request->early;

	if (start != early->there) {
		if (early->gap_count < EARLY_GAPS)
			early->after_gap[early->gap_count++] =
				(struct early_span){(uint32_t)start, (uint32_t)(start + bytes)};
		return;
	}
	early->there += (uint32_t)bytes;
	while (take_later(early))
		;
	if (unsent(request) < EARLY_PART)
		return;
	if (!early->listed)
		list(request);
	conn_mark_dirty(request->conn);
}

void
early_begin(struct request *request)
{
	request->early = (struct request_early){.there = 0};
	request->io.arrived = arrived;
}

void
early_end(struct request *request)
{
	struct request **link = &request->conn->early;

	if (!request->early.listed)
		return;
	while (*link != request)
		link = &(*link)->early.next;
	*link = request->early.next;
	request->early.listed = false;
}

void
early_send(struct conn *conn)
{
	struct request *request = conn->early;
	struct request_early *early;
	uint32_t length;
	size_t head;

	while (request && unsent(request) < EARLY_PART)
		request = request->early.next;
	if (!request)
		return;
	early = &request->early;
	length = unsent(request);
	head = nbd_reply_data(&conn->session, &request->nbd, request->nbd.offset + early->sent,
			      length, false, conn->early_head);
	conn->iov[0] = (struct iovec){conn->early_head, head};
	conn->iov[1] = (struct iovec){request->data + early->sent, length};
	conn->message.msg_iov = conn->iov;
	conn->message.msg_iovlen = 2;
	early->sent += length;
	request_keep(request);
	conn->early_sending = request;
	conn_send(conn);
}

void
early_sent(struct conn *conn)
{
	struct request *request = conn->early_sending;

	conn->early_sending = NULL;
	request_leave(request);
}
