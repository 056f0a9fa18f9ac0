/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/intake.h"

#include "server/connection/conn_state.h"
#include "server/connection/held.h"
#include "server/request/holes.h"
#include "server/connection/replies.h"
#include "server/request/request.h"
#include "server/request/requests.h"
#include "server/connection/offer.h"

#include "common/cleanup.h"
#include "nbd/request.h"

#include <string.h>

/* Most bytes of merged requests: the engine splits larger ones anyway.  bench/ builds a server that
 * merges nothing, for comparison. */
#ifndef MERGE_MAX
#define MERGE_MAX ((size_t)128 << 10)
#endif

/* A request that was decoded and checked, with its place in the input. */
struct taken {
	struct nbd_request nbd;
	struct nbd_check check;
	enum nbd_verdict verdict;
	size_t header; /* bytes */
	const uint8_t *payload;
	size_t there; /* bytes of the payload that are in the input */
};

/* The next request, if merging has decoded it already. */
struct ahead {
	bool there;
	struct taken *taken;
};

/* The request at `at` of the input.  1; 0: its header is not complete; -EPROTO. */
static int
decode(const struct conn *conn, size_t at, struct taken *taken)
{
	int r;

	if (conn->input_end == at)
		return 0;
	taken->header = nbd_request_size(&conn->session);
	if (conn->input_end - at < taken->header)
		return 0;
	r = nbd_request_decode(&conn->session, conn->input + at, &taken->nbd);
	if (r < 0)
		return r;
	taken->verdict = nbd_request_check(&conn->session, &taken->nbd, &taken->check);
	taken->payload = conn->input + at + taken->header;
	taken->there = conn->input_end - at - taken->header;
	if (taken->there > taken->check.payload)
		taken->there = (size_t)taken->check.payload;
	return 1;
}

/* Whether `next` goes on where a read or write that ends at `end` has ended, in the same way. */
static bool
goes_on(const struct taken *first, const struct taken *next, uint64_t end)
{
	return next->verdict == NBD_VERDICT_SERVE && next->nbd.type == first->nbd.type &&
	       next->nbd.flags == first->nbd.flags && next->nbd.offset == end &&
	       next->there == next->check.payload;
}

/* Appends to the leader the requests after it that can be merged with it; *length grows by them,
 * and *at passes them. */
static void
merge(struct conn *conn, const struct taken *first, struct request *leader, size_t *length,
      size_t *at, struct ahead *ahead)
{
	struct request *last = leader;
	const struct taken *next = ahead->taken;

	while (conn->requests < conn->room) {
		struct request *request;

		ahead->there = decode(conn, *at, ahead->taken) == 1;
		if (!ahead->there || !goes_on(first, next, first->nbd.offset + *length) ||
		    *length + next->nbd.length > MERGE_MAX)
			return;
		request = request_begin(conn, &next->nbd);
		if (!request)
			return;
		ahead->there = false;
		request->leader = leader;
		leader->users++;
		last->member = request;
		last = request;
		*length += next->nbd.length;
		*at += next->header + next->there;
	}
}

static void
abandon_merged(struct request *leader)
{
	struct request *next;

	for (struct request *request = leader->member; request; request = next) {
		next = request->member;
		request_finish(request);
	}
	request_finish(leader);
}

/* Gives each member its part of the buffer, and copies payloads from the input: all of each
 * member's, and the received part of the leader's. */
static void
distribute(struct request *leader, const struct taken *first)
{
	const uint8_t *payload = first->payload;
	char *data = leader->buffer.memory;

	for (struct request *request = leader; request; request = request->member) {
		size_t all = first->check.payload ? request->nbd.length : 0;
		size_t there = request == leader ? first->there : all;

		request->data = data;
		if (there)
			memcpy(data, payload, there);
		data += request->nbd.length;
		payload += there + first->header;
	}
}

static bool
answer(struct conn *conn, const struct taken *taken)
{
	struct request *request = request_begin(conn, &taken->nbd);

	if (!request)
		return false;
	conn->to_drop = taken->check.payload - taken->there;
	conn->input_start += taken->header + taken->there;
	if (taken->verdict == NBD_VERDICT_NOTHING) {
		reply_result(request, 0);
	} else if (!conn->to_drop) {
		reply_error(request, taken->check.error, taken->check.message);
	} else {
		/* The reply must wait for the payload: libnbd fails on a reply to a request that it
		 * is still sending. */
		reply_write_error(request, taken->check.error, taken->check.message);
		conn->refused = request;
	}
	return true;
}

static bool
answer_with_error(struct conn *conn, const struct taken *taken, enum nbd_error error,
		  const char *message)
{
	struct taken refused = *taken;

	refused.verdict = NBD_VERDICT_REFUSE;
	refused.check.error = error;
	refused.check.message = message;
	return answer(conn, &refused);
}

/* There is no memory now.  If no request has a buffer that it could give back, there is nothing to
 * wait for: false otherwise. */
static bool
answer_no_memory(struct conn *conn, const struct taken *taken)
{
	return conn->worker->buffers.taken == 0 &&
	       answer_with_error(conn, taken, NBD_ENOMEM, REPLY_NO_MEMORY);
}

/* A read or a write.  False: no memory now. */
static bool
transfer(struct conn *conn, const struct taken *taken, struct ahead *ahead)
{
	struct request *leader = request_begin(conn, &taken->nbd);
	size_t length = taken->nbd.length;
	size_t at = conn->input_start + taken->header + taken->there;
	bool find_holes = holes_worth_finding(conn->context, &conn->session, &taken->nbd);

	if (!leader)
		return false;
	if (find_holes) {
		conn->input_start = at;
		requests_read_sparse(leader);
		return true;
	}
	if (taken->there == taken->check.payload && length < MERGE_MAX)
		merge(conn, taken, leader, &length, &at, ahead);
	if (!request_take_buffer(leader, length)) {
		ahead->there = false;
		abandon_merged(leader);
		return answer_no_memory(conn, taken);
	}
	distribute(leader, taken);
	conn->input_start = at;
	if (taken->there < taken->check.payload) {
		conn->filling = leader;
		conn->filled = taken->there;
		return true;
	}
	requests_transfer(leader, length);
	return true;
}

/* False: the request has to wait. */
static bool
take_one(struct conn *conn, const struct taken *taken, struct ahead *ahead)
{
	const struct nbd_request *nbd = &taken->nbd;

	switch (taken->verdict) {
	case NBD_VERDICT_SERVE:
		if (conn->life == CONN_REFUSES)
			return answer_with_error(conn, taken, NBD_ESHUTDOWN,
						 "the server is ending");
		if (nbd->type == NBD_CMD_READ || nbd->type == NBD_CMD_WRITE)
			return transfer(conn, taken, ahead);
		if (!requests_carry_out(conn, nbd))
			return false;
		break;
	case NBD_VERDICT_NOTHING:
	case NBD_VERDICT_REFUSE: return answer(conn, taken);
	case NBD_VERDICT_DISCONNECT:
		conn->presence.said_disc = true;
		conn_close(conn);
		break;
	case NBD_VERDICT_DROP:
		conn_warn(conn, taken->check.message);
		conn_abort(conn);
		break;
	}
	conn->input_start += taken->header + taken->there;
	return true;
}

/* False: the request has to wait. */
static bool
has_room(struct conn *conn, const struct taken *taken)
{
	if (conn->requests >= CONN_REQUESTS) {
		conn_stall(conn);
		return false;
	}
	return taken->verdict != NBD_VERDICT_SERVE || held_admit(conn, &taken->nbd);
}

static void
drop_payload(struct conn *conn)
{
	size_t there = conn->input_end - conn->input_start;
	size_t n = conn->to_drop < there ? (size_t)conn->to_drop : there;

	conn->input_start += n;
	conn->to_drop -= n;
	if (conn->refused && !conn->to_drop)
		reply_add(steal_pointer(&conn->refused));
}

static void
swap(struct taken **a, struct taken **b)
{
	struct taken *held = *a;

	*a = *b;
	*b = held;
}

void
intake_run(struct conn *conn)
{
	struct taken both[2], *taken = &both[0];
	struct ahead ahead = {.there = false, .taken = &both[1]};
	int r = 1;

	/* The image may have been resized. */
	conn->session.size = image_size(conn->offer->export->image);
	conn->stalled = false;
	while (!conn_is_closing(conn) && !conn->filling) {
		drop_payload(conn);
		if (conn->to_drop)
			break;
		if (ahead.there)
			swap(&taken, &ahead.taken);
		else
			r = decode(conn, conn->input_start, taken);
		if (r <= 0)
			break;
		ahead.there = false;
		if (conn->requests >= conn->room && !has_room(conn, taken))
			break;
		if (!take_one(conn, taken, &ahead)) {
			if (taken->verdict == NBD_VERDICT_SERVE)
				held_refund(conn, &taken->nbd);
			conn_stall(conn);
			break;
		}
	}
	if (r < 0) {
		conn_warn(conn, "bad request magic");
		conn_abort(conn);
	}
	if (conn->input_start == conn->input_end)
		conn->input_start = conn->input_end = 0;
}
