/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/dispatch.h"

#include "server/access/identity.h"
#include "server/connection/conn.h"
#include "server/connection/offer.h"
#include "server/connection/peer.h"
#include "server/connection/throttle.h"
#include "server/request/block_status.h"
#include "server/request/holes.h"
#include "server/request/probes.h"
#include "server/request/reply.h"
#include "server/request/traffic.h"
#include "server/connection/worker_contexts.h"

#include <errno.h>
#include <string.h>

/* Most bytes of merged requests: the engine splits larger ones anyway. bench/ builds a server that
 * merges nothing, for comparison. */
#ifndef MERGE_MAX
#define MERGE_MAX ((size_t)128 << 10)
#endif

/* Bytes of the shortest read that is worth early data. */
#define EARLY_READ ((uint64_t)512 << 10)

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

/* ---- results */

/* Its reply is written. */
static void
dispatch_reply(struct request *request)
{
	outbox_add(&conn_of(request)->outbox, request);
	conn_mark_dirty(conn_of(request));
}

/* A client that is told of an error would not look for the image elsewhere. */
static void
dispatch_end_after_loss(struct conn *conn)
{
	if (!conn_is_lost(conn))
		conn_warn(conn, "another server may have the image now");
	conn_abort(conn);
}

/* The image has the request's result. */
static void
dispatch_note_result(struct request *request, int result)
{
	request->result = result;
	PROBE(done, request);
	if (result == -ESHUTDOWN)
		dispatch_end_after_loss(conn_of(request));
}

static void
dispatch_complete(struct request *request, int result)
{
	dispatch_note_result(request, result);
	reply_write(request, result);
	dispatch_reply(request);
}

static void
dispatch_done_alone(struct io *io)
{
	dispatch_complete(request_of_io(io), io->result);
}

static void
dispatch_done_early(struct io *io)
{
	struct request *request = request_of_io(io);

	outbox_remove_early(&conn_of(request)->outbox, request);
	dispatch_note_result(request, io->result);
	if (io->result == 0)
		reply_write_rest(request, request->early.sent);
	else
		reply_write(request, io->result);
	dispatch_reply(request);
}

static void
dispatch_status_done(struct helper_job *job)
{
	struct request *request = request_of_job(job);
	bool lost = request->result == -ESHUTDOWN;

	block_status_reply(request);
	if (lost)
		dispatch_end_after_loss(conn_of(request));
	dispatch_reply(request);
}

static void
dispatch_read_ahead(struct helper_job *job)
{
	struct request *request = request_of_job(job);

	request->result =
		image_cache(request->queue->image, request->nbd.offset, request->nbd.length);
}

static void
dispatch_read_ahead_done(struct helper_job *job)
{
	struct request *request = request_of_job(job);

	reply_write(request, request->result);
	dispatch_reply(request);
}

/* ---- early data
 *
 * Of a large read, bytes are sent while the image still reads the rest: so the time of the disk and
 * that of the client's line overlap. Only over TCP: elsewhere there is no line, and the wake-ups
 * for more parts cost more than they gain.
 *
 * Only in structured and extended replies, which consist of several chunks and can report an error
 * after data. In a simple reply the error is told before the data: a failure after that could only
 * end the connection. */

static bool
dispatch_may_be_early(const struct request *request)
{
	return request->nbd.length >= EARLY_READ && request->nbd.type == NBD_CMD_READ &&
	       request->part_count == 0 && conn_of(request)->identity->kind == IDENTITY_INET &&
	       request->queue->session.form != NBD_FORM_SIMPLE &&
	       !(request->nbd.flags & NBD_CMD_FLAG_DF);
}

/* Adds those bytes to the ones that are there from the beginning, if they are adjacent now. */
static bool
dispatch_take_later(struct request_early *early)
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

/* Chunks may arrive in any order. If there are too many after a gap, the rest of the read is sent
 * when it is complete. */
static void
dispatch_arrived(struct io *io, uint64_t start, uint64_t bytes)
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
	while (dispatch_take_later(early))
		;
	if (outbox_unsent(request) < OUTBOX_EARLY)
		return;
	outbox_add_early(&conn_of(request)->outbox, request);
	conn_mark_dirty(conn_of(request));
}

/* ---- submitting */

/* A lost connection's changes are dropped. While a change waited, its client may have given up and
 * repeated it over another connection: see peer_may_change(). */
static bool
dispatch_is_wanted(struct io *io)
{
	struct conn *conn = conn_of(request_of_io(io));

	if (conn_is_lost(conn))
		return false;
	if (peer_may_change(conn)) {
		/* Counted while the range is held, so that the next holder sees it. */
		traffic_change(conn->queue.traffic);
		conn->presence.changes++;
		return true;
	}
	conn_warn(conn, CONN_GAVE_UP);
	conn_abort(conn);
	return false;
}

/* Fills the io of a request, on its part of the leader's buffer. */
static void
dispatch_prepare(struct request *request)
{
	const struct nbd_request *nbd = &request->nbd;
	struct io *io = &request->io;

	io->flags = nbd->flags & NBD_CMD_FLAG_FUA ? IO_FUA : 0;
	switch (nbd->type) {
	case NBD_CMD_READ: io->op = IO_READ; break;
	case NBD_CMD_WRITE: io->op = IO_WRITE; break;
	case NBD_CMD_FLUSH: io->op = IO_FLUSH; break;
	case NBD_CMD_TRIM: io->op = IO_DISCARD; break;
	default:
		io->op = IO_ZERO;
		io->flags |= (nbd->flags & NBD_CMD_FLAG_NO_HOLE ? 0 : IO_MAY_UNMAP) |
			     (nbd->flags & NBD_CMD_FLAG_FAST_ZERO ? IO_FAST : 0);
	}
	io->offset = nbd->offset;
	io->length = nbd->length;
	io->buffer = request->data;
	io->registered = request->leader->buffer.registered;
	io->arrived = NULL;
	io->wanted = io->op == IO_READ ? NULL : dispatch_is_wanted;
}

static void
dispatch_submit(struct request *request, void (*done)(struct io *io))
{
	request->io.done = done;
	worker_context_mark(conn_of(request)->context);
	PROBE_IO(submitted, request);
	io_submit(request->queue->ctx, &request->io);
}

/* Submits a read or write that is not merged. */
static void
dispatch_submit_alone(struct request *request)
{
	if (!dispatch_may_be_early(request)) {
		dispatch_submit(request, dispatch_done_alone);
		return;
	}
	request->early = (struct request_early){.there = 0};
	request->io.arrived = dispatch_arrived;
	dispatch_submit(request, dispatch_done_early);
}

void
dispatch_filled(struct request *request)
{
	request->begun = request_now(request->queue->pool);
	dispatch_prepare(request);
	dispatch_submit(request, dispatch_done_alone);
}

/* ---- merged requests */

static void
dispatch_done_again(struct io *io);

static void
dispatch_try_again(struct request *request)
{
	dispatch_prepare(request);
	request->io.done = dispatch_done_again;
	worker_context_mark(conn_of(request)->context);
	PROBE_IO(submitted, request);
	io_retry_part(&request->leader->io, &request->io);
}

/* A member of a failed merged request has been tried by itself. The next member waited for that:
 * the two may share a block, and within the range of all nothing else keeps them apart. */
static void
dispatch_done_again(struct io *io)
{
	struct request *request = request_of_io(io);

	if (request->member)
		dispatch_try_again(request->member);
	else
		io_release_range(&request->leader->io);
	dispatch_complete(request, io->result);
}

static void
dispatch_done_merged(struct io *io)
{
	struct request *leader = request_of_io(io), *next;
	int result = io->result;

	/* At least one member has the error: each is tried by itself, to find out which. The range
	 * of all stays held, since the changes that wait for it are newer. What was written
	 * already, or comes from a lost connection, isn't written again. */
	if (result < 0 && !io->written && !conn_is_lost(conn_of(leader))) {
		dispatch_try_again(leader);
		return;
	}
	io_release_range(io);
	for (struct request *request = leader; request; request = next) {
		next = request->member;
		dispatch_complete(request, result);
	}
}

/* Submits a read or a write with its merged members, `length` bytes in all. Each has its part of
 * the leader's buffer, which holds the data of a write. */
static void
dispatch_submit_all(struct request *leader, size_t length)
{
	dispatch_prepare(leader);
	if (!leader->member) {
		dispatch_submit_alone(leader);
		return;
	}
	leader->io.length = length;
	if (leader->io.op == IO_WRITE)
		leader->io.flags |= IO_KEEP_RANGE;
	dispatch_submit(leader, dispatch_done_merged);
}

/* ---- reads that may have holes */

/* Takes a buffer, and reads. False: no memory now. */
static bool
dispatch_read_data(struct request *request)
{
	if (!request_take_buffer(request, request->nbd.length)) {
		if (request->queue->pool->buffers.taken > 0)
			return false;
		reply_write_error(request, NBD_ENOMEM, REPLY_NO_MEMORY);
		dispatch_reply(request);
		return true;
	}
	request->data = request->buffer.memory;
	dispatch_prepare(request);
	dispatch_submit_alone(request);
	return true;
}

void
dispatch_feed(struct conn *conn)
{
	struct request_list *hungry = &conn->queue.hungry;

	while (hungry->first) {
		struct request *request = hungry->first, *next = request->next;

		if (conn_is_lost(conn)) {
			/* It may have been the last request that the connection waited for. */
			request_finish(request);
			conn_mark_dirty(conn);
		} else if (!dispatch_read_data(request)) {
			conn_starve(conn);
			return;
		}
		hungry->first = next;
		if (!next)
			request_list_init(hungry);
	}
}

/* The read takes a buffer only now, unless it is a single hole. */
static void
dispatch_holes_found(struct request *request)
{
	if (request->part_count == 1) {
		reply_write(request, 0);
		dispatch_reply(request);
		return;
	}
	request_list_add(&request->queue->hungry, request);
	dispatch_feed(conn_of(request));
}

/* ---- taking requests */

/* The request at `at` of the input. 1; 0: its header is not complete; -EPROTO. */
static int
dispatch_decode(const struct conn *conn, size_t at, struct taken *taken)
{
	const struct nbd_session *session = &conn->queue.session;
	int r;

	if (conn->intake.end == at)
		return 0;
	taken->header = nbd_request_size(session);
	if (conn->intake.end - at < taken->header)
		return 0;
	r = nbd_request_decode(session, conn->intake.bytes + at, &taken->nbd);
	if (r < 0)
		return r;
	taken->verdict = nbd_request_check(session, &taken->nbd, &taken->check);
	taken->payload = conn->intake.bytes + at + taken->header;
	taken->there = conn->intake.end - at - taken->header;
	if (taken->there > taken->check.payload)
		taken->there = (size_t)taken->check.payload;
	return 1;
}

/* Returns whether `next` goes on where a read or write that ends at `end` has ended, in the same
 * way. */
static bool
dispatch_goes_on(const struct taken *first, const struct taken *next, uint64_t end)
{
	return next->verdict == NBD_VERDICT_SERVE && next->nbd.type == first->nbd.type &&
	       next->nbd.flags == first->nbd.flags && next->nbd.offset == end &&
	       next->there == next->check.payload;
}

/* Appends to the leader the requests after it that can be merged with it; *length grows by them,
 * and *at passes them. */
static void
dispatch_merge(struct conn *conn, const struct taken *first, struct request *leader, size_t *length,
	       size_t *at, struct ahead *ahead)
{
	struct request *last = leader;
	const struct taken *next = ahead->taken;

	while (conn->queue.in_flight < conn->throttle.room) {
		struct request *request;

		ahead->there = dispatch_decode(conn, *at, ahead->taken) == 1;
		if (!ahead->there || !dispatch_goes_on(first, next, first->nbd.offset + *length) ||
		    *length + next->nbd.length > MERGE_MAX)
			return;
		request = request_begin(&conn->queue, &next->nbd);
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
dispatch_abandon_merged(struct request *leader)
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
dispatch_distribute(struct request *leader, const struct taken *first)
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

/* Answers a request that is not carried out. False: no memory now. */
static bool
dispatch_answer(struct conn *conn, const struct taken *taken, enum nbd_error error,
		const char *message)
{
	struct request *request = request_begin(&conn->queue, &taken->nbd);

	if (!request)
		return false;
	conn->intake.to_drop = taken->check.payload - taken->there;
	intake_take(&conn->intake, taken->header + taken->there);
	if (taken->verdict == NBD_VERDICT_NOTHING)
		reply_write(request, 0);
	else
		reply_write_error(request, error, message);
	/* A refusal must wait for the payload: libnbd fails on a reply to a request that it is
	 * still sending. */
	if (conn->intake.to_drop && taken->verdict != NBD_VERDICT_NOTHING)
		conn->intake.refused = request;
	else
		dispatch_reply(request);
	return true;
}

/* A read or a write. False: no memory now. */
static bool
dispatch_transfer(struct conn *conn, const struct taken *taken, struct ahead *ahead)
{
	struct request *leader = request_begin(&conn->queue, &taken->nbd);
	size_t length = taken->nbd.length;
	size_t at = conn->intake.start + taken->header + taken->there;

	if (!leader)
		return false;
	if (holes_worth_finding(&conn->queue, &taken->nbd)) {
		conn->intake.start = at;
		holes_find(leader, dispatch_holes_found);
		return true;
	}
	if (taken->there == taken->check.payload && length < MERGE_MAX)
		dispatch_merge(conn, taken, leader, &length, &at, ahead);
	if (!request_take_buffer(leader, length)) {
		ahead->there = false;
		dispatch_abandon_merged(leader);
		/* If no request has a buffer that it could give back, there is nothing to wait for.
		 */
		return conn->queue.pool->buffers.taken == 0 &&
		       dispatch_answer(conn, taken, NBD_ENOMEM, REPLY_NO_MEMORY);
	}
	dispatch_distribute(leader, taken);
	conn->intake.start = at;
	if (taken->there < taken->check.payload)
		intake_fill(&conn->intake, leader, leader->data + taken->there,
			    length - taken->there);
	else
		dispatch_submit_all(leader, length);
	return true;
}

/* A request without a payload in either direction. False: no memory now. */
static bool
dispatch_carry_out(struct conn *conn, const struct taken *taken)
{
	struct request *request = request_begin(&conn->queue, &taken->nbd);

	if (!request)
		return false;
	switch (taken->nbd.type) {
	case NBD_CMD_BLOCK_STATUS:
		if (block_status_find(request, dispatch_status_done))
			break;
		request_finish(request);
		return false;
	case NBD_CMD_CACHE:
		request_ask_helper(request, dispatch_read_ahead, dispatch_read_ahead_done);
		break;
	default: dispatch_prepare(request); dispatch_submit(request, dispatch_done_alone);
	}
	intake_take(&conn->intake, taken->header + taken->there);
	return true;
}

/* False: the request has to wait. */
static bool
dispatch_take(struct conn *conn, const struct taken *taken, struct ahead *ahead)
{
	switch (taken->verdict) {
	case NBD_VERDICT_SERVE:
		if (conn->life == CONN_REFUSES)
			return dispatch_answer(conn, taken, NBD_ESHUTDOWN, "the server is ending");
		if (taken->nbd.type == NBD_CMD_READ || taken->nbd.type == NBD_CMD_WRITE)
			return dispatch_transfer(conn, taken, ahead);
		return dispatch_carry_out(conn, taken);
	case NBD_VERDICT_NOTHING:
	case NBD_VERDICT_REFUSE:
		return dispatch_answer(conn, taken, taken->check.error, taken->check.message);
	case NBD_VERDICT_DISCONNECT:
		conn->presence.said_disc = true;
		conn_close(conn);
		break;
	case NBD_VERDICT_DROP:
		conn_warn(conn, taken->check.message);
		conn_abort(conn);
		break;
	}
	intake_take(&conn->intake, taken->header + taken->there);
	return true;
}

/* Returns whether there is room for the request, and no limit against it; else it has to wait. */
static bool
dispatch_admit(struct conn *conn, const struct taken *taken)
{
	if (conn->queue.in_flight >= CONN_REQUESTS) {
		conn_starve(conn);
		return false;
	}
	return taken->verdict != NBD_VERDICT_SERVE || throttle_admit(conn, &taken->nbd);
}

void
dispatch_run(struct conn *conn)
{
	struct taken both[2], *taken = &both[0], *other;
	struct request *refused;
	struct ahead ahead = {.there = false, .taken = &both[1]};
	int r = 1;

	/* The image may have been resized. */
	conn->queue.session.size = image_size(conn->queue.image);
	conn->paused = false;
	while (!conn_is_closing(conn) && !conn->intake.filling) {
		if (conn->intake.to_drop) {
			refused = intake_drop(&conn->intake);
			if (refused)
				dispatch_reply(refused);
			if (conn->intake.to_drop)
				break;
		}
		if (ahead.there) {
			other = taken;
			taken = ahead.taken;
			ahead.taken = other;
		} else {
			r = dispatch_decode(conn, conn->intake.start, taken);
		}
		if (r <= 0)
			break;
		ahead.there = false;
		if (conn->queue.in_flight >= conn->throttle.room && !dispatch_admit(conn, taken))
			break;
		if (!dispatch_take(conn, taken, &ahead)) {
			if (taken->verdict == NBD_VERDICT_SERVE)
				throttle_refund(conn, &taken->nbd);
			conn_starve(conn);
			break;
		}
	}
	if (r < 0) {
		conn_warn(conn, "bad request magic");
		conn_abort(conn);
	}
	intake_rewind(&conn->intake);
}
