/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/serve/requests.h"

#include "server/serve/conn.h"
#include "server/serve/holes.h"
#include "server/serve/peer.h"
#include "server/serve/probes.h"
#include "server/serve/request.h"
#include "server/serve/served.h"
#include "server/serve/traffic.h"
#include "server/serve/worker.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "engine/context/ioctx.h"
#include "engine/io/extent.h"

#include <errno.h>
#include <string.h>

/* Most bytes that adjacent requests are merged to: the engine splits larger ones anyway.  bench/
 * has a build that merges nothing, to measure what it is worth. */
#ifndef MERGE_MAX
#define MERGE_MAX ((size_t)128 << 10)
#endif

/* For the extents of one reply: up to 1,000 or 2,000 of them. */
#define STATUS_SIZE ((size_t)16 << 10)

#define NO_MEMORY   "the server is out of memory"

static void
finish(struct request *request)
{
	struct conn *conn = request->conn;

	request->next = NULL;
	*conn->ready_tail = request;
	conn->ready_tail = &request->next;
	worker_conn_dirty(conn->worker, conn);
}

static void
write_error(struct request *request, enum nbd_error error, const char *message)
{
	request->result = -(int)error;
	request->data_length = 0;
	request->part_count = 0;
	request->head_length = nbd_reply_error(&request->conn->session, &request->nbd, error,
					       message, request->head);
}

static void
reply_error(struct request *request, enum nbd_error error, const char *message)
{
	write_error(request, error, message);
	finish(request);
}

static void
reply(struct request *request, int result)
{
	const struct nbd_session *session = &request->conn->session;

	if (result < 0) {
		reply_error(request, nbd_reply_errno(&request->nbd, result), NULL);
		return;
	}
	if (request->nbd.type == NBD_CMD_READ)
		request->conn->read_bytes += request->nbd.length;
	if (request->part_count > 0) {
		holes_reply(request);
	} else if (request->nbd.type == NBD_CMD_READ && request->nbd.length > 0) {
		request->data_length = request->nbd.length;
		request->head_length =
			nbd_reply_data(session, &request->nbd, request->nbd.offset,
				       (uint32_t)request->nbd.length, true, request->head);
	} else {
		if (request->nbd.type == NBD_CMD_WRITE)
			request->conn->write_bytes += request->nbd.length;
		request->data_length = 0;
		request->head_length = nbd_reply_done(session, &request->nbd, request->head);
	}
	finish(request);
}

/* The image has carried it out, or failed to. */
static void
carried_out(struct request *request, int result)
{
	struct conn *conn = request->conn;

	request->result = result;
	probe_done(request);
	traffic_count(conn->context->traffic, request->leader->io.op,
		      worker_now(conn->worker) - request->begun);
	reply(request, result);
}

static void
done_alone(struct io *io)
{
	carried_out((struct request *)io, io->result);
}

static void
submit(struct request *request, void (*done)(struct io *io))
{
	struct worker_context *context = request->conn->context;

	request->io.done = done;
	context->submitted = true;
	probe_submitted(request);
	io_submit(context->ctx, &request->io);
}

static enum io_op
operation(const struct nbd_request *nbd)
{
	switch (nbd->type) {
	case NBD_CMD_READ: return IO_READ;
	case NBD_CMD_WRITE: return IO_WRITE;
	case NBD_CMD_FLUSH: return IO_FLUSH;
	case NBD_CMD_TRIM: return IO_DISCARD;
	default: return IO_ZERO;
	}
}

static unsigned int
io_flags(const struct nbd_request *nbd)
{
	unsigned int flags = nbd->flags & NBD_CMD_FLAG_FUA ? IO_FUA : 0;

	if (nbd->type != NBD_CMD_WRITE_ZEROES)
		return flags;
	return flags | (nbd->flags & NBD_CMD_FLAG_NO_HOLE ? 0 : IO_MAY_UNMAP) |
	       (nbd->flags & NBD_CMD_FLAG_FAST_ZERO ? IO_FAST : 0);
}

/* Nobody waits for what a client that is gone has asked for.  A change that has waited may come
 * from one that has lost patience meanwhile, and sent it again elsewhere: see peer_may_change(). */
static bool
wanted(struct io *io)
{
	struct conn *conn = ((struct request *)io)->conn;

	if (conn->lost)
		return false;
	if (peer_may_change(conn)) {
		/* Now, since the range is held: a client that gets it next must see this. */
		traffic_change(conn->context->traffic);
		conn->changes++;
		return true;
	}
	conn_warn(conn, CONN_GAVE_UP);
	conn_end(conn, true);
	return false;
}

/* Each member's own operation, on its part of the leader's buffer. */
static void
prepare(struct request *request)
{
	request->io.op = operation(&request->nbd);
	request->io.flags = io_flags(&request->nbd);
	request->io.offset = request->nbd.offset;
	request->io.length = request->nbd.length;
	request->io.buffer = request->data;
	request->io.wanted = request->io.op == IO_READ ? NULL : wanted;
}

static void
done_again(struct io *io);

static void
try_again(struct request *request)
{
	prepare(request);
	request->io.done = done_again;
	request->conn->context->submitted = true;
	probe_submitted(request);
	io_retry_part(&request->leader->io, &request->io);
}

/* A member of a merged request that failed.  The next one has waited: it may share a block with
 * this one, and nothing else keeps the two apart under the range of all. */
static void
done_again(struct io *io)
{
	struct request *request = (struct request *)io;

	if (request->member)
		try_again(request->member);
	else
		io_release_range(&request->leader->io);
	carried_out(request, io->result);
}

static void
done_merged(struct io *io)
{
	struct request *leader = (struct request *)io, *next;
	int result = io->result;

	/* The error is of one or some of the merged requests: each is tried by itself, to find out;
	 * under the range of all, since what has waited for it is newer.  What is written isn't
	 * written again, nor what nobody waits for. */
	if (result < 0 && !io->written && !leader->conn->lost) {
		try_again(leader);
		return;
	}
	io_release_range(io);
	for (struct request *request = leader; request; request = next) {
		next = request->member;
		carried_out(request, result);
	}
}

/* A request structure that counts as under way. */
static struct request *
begin(struct conn *conn, const struct nbd_request *nbd)
{
	struct request *request = worker_request_take(conn->worker);

	if (!request)
		return NULL;
	request->conn = conn;
	request->nbd = *nbd;
	request->leader = request;
	request->member = NULL;
	request->users = 1;
	request->begun = worker_now(conn->worker);
	request->result = 0;
	request->buffer = (struct buffer){0};
	request->data = NULL;
	request->data_length = request->head_length = 0;
	request->part_count = 0;
	conn->requests++;
	traffic_begin(conn->context->traffic);
	probe_received(request);
	return request;
}

void
requests_over(struct conn *conn, struct request *request)
{
	struct request *leader = request->leader;

	conn->requests--;
	traffic_end(conn->context->traffic);
	if (request != leader)
		worker_request_give(conn->worker, request);
	if (--leader->users > 0)
		return;
	if (leader->buffer.memory)
		conn->buffers--;
	buffers_give(&conn->worker->buffers, &leader->buffer);
	worker_request_give(conn->worker, leader);
}

/* A connection that has none gets one even when others have taken all: who takes none of its
 * replies keeps its buffers for ever. */
static bool
take_buffer(struct conn *conn, struct request *leader, size_t length)
{
	struct buffers *buffers = &conn->worker->buffers;
	bool taken = conn->buffers > 0 ? buffers_take(buffers, length, &leader->buffer)
				       : buffers_take_first(buffers, length, &leader->buffer);

	if (taken)
		conn->buffers++;
	return taken;
}

/* ---- taking requests */

/* One that was decoded and judged, with its place in the input. */
struct taken {
	struct nbd_request nbd;
	struct nbd_check check;
	enum nbd_verdict verdict;
	const uint8_t *payload;
	size_t there; /* bytes of the payload that are in the input */
};

/* The request that follows, when merging has looked at it already. */
struct ahead {
	bool there;
	struct taken taken;
};

/* The request at `at` of the input.  1; 0: its header is not complete; -EPROTO. */
static int
decode(const struct conn *conn, size_t at, struct taken *taken)
{
	size_t size = nbd_request_size(&conn->session);
	int r;

	if (conn->input_end - at < size)
		return 0;
	r = nbd_request_decode(&conn->session, conn->input + at, &taken->nbd);
	if (r < 0)
		return r;
	taken->verdict = nbd_request_check(&conn->session, &taken->nbd, &taken->check);
	taken->payload = conn->input + at + size;
	taken->there = conn->input_end - at - size;
	if (taken->there > taken->check.payload)
		taken->there = (size_t)taken->check.payload;
	return 1;
}

static size_t
size_in_input(const struct conn *conn, const struct taken *taken)
{
	return nbd_request_size(&conn->session) + taken->there;
}

/* Whether `next` goes on where a read or write that ends at `end` has ended, in the same way. */
static bool
goes_on(const struct taken *first, const struct taken *next, uint64_t end)
{
	return next->verdict == NBD_VERDICT_SERVE && next->nbd.type == first->nbd.type &&
	       next->nbd.flags == first->nbd.flags && next->nbd.offset == end &&
	       next->there == next->check.payload;
}

/* Appends to the leader the requests behind it that can be merged with it; *length grows by them,
 * and *at passes them. */
static void
merge(struct conn *conn, const struct taken *first, struct request *leader, size_t *length,
      size_t *at, struct ahead *ahead)
{
	struct request *last = leader;
	const struct taken *next = &ahead->taken;

	while (conn->requests < CONN_REQUESTS) {
		struct request *request;

		ahead->there = decode(conn, *at, &ahead->taken) == 1;
		if (!ahead->there || !goes_on(first, next, first->nbd.offset + *length) ||
		    *length + next->nbd.length > MERGE_MAX)
			return;
		request = begin(conn, &next->nbd);
		if (!request)
			return;
		ahead->there = false;
		request->leader = leader;
		leader->users++;
		last->member = request;
		last = request;
		*length += next->nbd.length;
		*at += size_in_input(conn, next);
	}
}

static void
abandon(struct conn *conn, struct request *leader)
{
	struct request *next;

	for (struct request *request = leader->member; request; request = next) {
		next = request->member;
		requests_over(conn, request);
	}
	requests_over(conn, leader);
}

/* The buffer is there: tells each member its part, and takes payloads that are in the input: all of
 * each member's, and so much as has come of the leader's, which is the first. */
static void
distribute(const struct conn *conn, struct request *leader, const struct taken *first)
{
	size_t header = nbd_request_size(&conn->session);
	const uint8_t *payload = first->payload;
	char *data = leader->buffer.memory;

	for (struct request *request = leader; request; request = request->member) {
		size_t all = first->check.payload ? request->nbd.length : 0;
		size_t there = request == leader ? first->there : all;

		request->data = data;
		memcpy(data, payload, there);
		data += request->nbd.length;
		payload += there + header;
	}
}

static bool
answer(struct conn *conn, const struct taken *taken)
{
	struct request *request = begin(conn, &taken->nbd);

	if (!request)
		return false;
	conn->to_drop = taken->check.payload - taken->there;
	conn->input_start += size_in_input(conn, taken);
	if (taken->verdict == NBD_VERDICT_NOTHING) {
		reply(request, 0);
	} else if (!conn->to_drop) {
		reply_error(request, taken->check.error, taken->check.message);
	} else {
		/* A client knows nothing yet of a request that it is still sending: libnbd gives
		 * up. */
		write_error(request, taken->check.error, taken->check.message);
		conn->refused = request;
	}
	return true;
}

static bool
refuse(struct conn *conn, const struct taken *taken, enum nbd_error error, const char *message)
{
	struct taken refused = *taken;

	refused.verdict = NBD_VERDICT_REFUSE;
	refused.check.error = error;
	refused.check.message = message;
	return answer(conn, &refused);
}

/* There is no memory now.  When nobody has any that could be given back, waiting is in vain. */
static bool
refuse_for_memory(struct conn *conn, const struct taken *taken)
{
	return conn->worker->buffers.taken == 0 && refuse(conn, taken, NBD_ENOMEM, NO_MEMORY);
}

static void
stall(struct conn *conn)
{
	struct timespec now;

	conn->stalled = true;
	conn->worker->starved = true;
	if (conn->stalled_since)
		return;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	conn->stalled_since = now.tv_sec;
}

/* False: no memory now. */
static bool
read_data(struct request *request)
{
	struct conn *conn = request->conn;

	if (!take_buffer(conn, request, request->nbd.length)) {
		if (conn->worker->buffers.taken > 0)
			return false;
		reply_error(request, NBD_ENOMEM, NO_MEMORY);
		return true;
	}
	request->data = request->buffer.memory;
	prepare(request);
	submit(request, done_alone);
	return true;
}

void
requests_feed(struct conn *conn)
{
	while (conn->hungry) {
		struct request *request = conn->hungry, *next = request->next;

		if (conn->lost) {
			/* The connection may have waited for nothing else. */
			requests_over(conn, request);
			worker_conn_dirty(conn->worker, conn);
		} else if (!read_data(request)) {
			stall(conn);
			return;
		}
		conn->hungry = next;
		if (!next)
			conn->hungry_tail = &conn->hungry;
	}
}

/* Only now is it known whether it needs memory. */
static void
holes_found(struct request *request)
{
	struct conn *conn = request->conn;

	if (holes_only(request)) {
		reply(request, 0);
		return;
	}
	request->next = NULL;
	*conn->hungry_tail = request;
	conn->hungry_tail = &request->next;
	requests_feed(conn);
}

/* A read or a write.  False: no memory now. */
static bool
transfer(struct conn *conn, const struct taken *taken, struct ahead *ahead)
{
	struct request *leader = begin(conn, &taken->nbd);
	size_t length = taken->nbd.length;
	size_t at = conn->input_start + size_in_input(conn, taken);
	bool find_holes = holes_worth_finding(conn->context, &conn->session, &taken->nbd);

	if (!leader)
		return false;
	if (find_holes) {
		conn->input_start = at;
		holes_find(leader, holes_found);
		return true;
	}
	if (taken->there == taken->check.payload && length < MERGE_MAX)
		merge(conn, taken, leader, &length, &at, ahead);
	if (!take_buffer(conn, leader, length)) {
		ahead->there = false;
		abandon(conn, leader);
		return refuse_for_memory(conn, taken);
	}
	distribute(conn, leader, taken);
	conn->input_start = at;
	if (taken->there < taken->check.payload) {
		conn->filling = leader;
		conn->filled = taken->there;
		return true;
	}
	prepare(leader);
	leader->io.length = length;
	if (leader->member && leader->io.op == IO_WRITE)
		leader->io.flags |= IO_KEEP_RANGE;
	submit(leader, leader->member ? done_merged : done_alone);
	return true;
}

void
requests_filled(struct conn *conn)
{
	struct request *request = conn->filling;

	conn->filling = NULL;
	request->begun = worker_now(conn->worker);
	prepare(request);
	submit(request, done_alone);
}

static int
add_extent(void *data, uint64_t offset, uint64_t length, bool hole)
{
	struct nbd_status *status = data;
	bool more = nbd_status_add(status, length, hole ? NBD_STATE_HOLE | NBD_STATE_ZERO : 0);

	(void)offset;
	/* The first one is enough if one is asked for, but not when it ends within a block. */
	return more && (status->block || !(status->request->flags & NBD_CMD_FLAG_REQ_ONE)) ? 0 : 1;
}

static void
log_status_failure(struct image *image, const struct nbd_request *nbd, int err)
{
	static struct log_limit limit = LOG_LIMIT_INIT(10, 10);
	struct image_status facts;
	unsigned int suppressed;
	char more[LOG_LEFT_OUT];

	if (!log_limit_pass(&limit, &suppressed))
		return;
	image_status(image, &facts);
	log_error("%s: extents of %llu bytes at offset %llu failed: %s%s", facts.path,
		  (unsigned long long)nbd->length, (unsigned long long)nbd->offset, strerror(-err),
		  log_left_out(suppressed, more));
}

/* Has a helper's thread ask the file system, then the worker's go on. */
static void
ask(struct request *request, void (*work)(struct helper_job *job),
    void (*done)(struct helper_job *job))
{
	request->job.work = work;
	request->job.done = done;
	ioctx_help(request->conn->context->ctx, &request->job);
}

static void
find_status(struct helper_job *job)
{
	struct request *request = request_of_job(job);
	const struct nbd_request *nbd = &request->nbd;
	struct nbd_status status;

	nbd_status_init(&status, &request->conn->session, nbd, request->buffer.memory, STATUS_SIZE);
	request->result = extents_visit(request->conn->served->image, nbd->offset, nbd->length,
					false, add_extent, &status);
	if (request->result >= 0)
		request->data_length = nbd_status_finish(&status);
}

static void
status_found(struct helper_job *job)
{
	struct request *request = request_of_job(job);

	if (request->result < 0) {
		log_status_failure(request->conn->served->image, &request->nbd, request->result);
		reply_error(request, nbd_reply_errno(&request->nbd, request->result), NULL);
		return;
	}
	request->result = 0;
	request->data = request->buffer.memory;
	finish(request);
}

static bool
block_status(struct conn *conn, const struct nbd_request *nbd)
{
	struct request *request = begin(conn, nbd);

	if (!request)
		return false;
	if (!take_buffer(conn, request, STATUS_SIZE)) {
		abandon(conn, request);
		return false;
	}
	ask(request, find_status, status_found);
	return true;
}

static void
read_ahead(struct helper_job *job)
{
	struct request *request = request_of_job(job);

	request->result =
		image_cache(request->conn->served->image, request->nbd.offset, request->nbd.length);
}

static void
was_read_ahead(struct helper_job *job)
{
	struct request *request = request_of_job(job);

	reply(request, request->result);
}

/* What has no payload in either direction. */
static bool
other(struct conn *conn, const struct nbd_request *nbd)
{
	struct request *request;

	if (nbd->type == NBD_CMD_BLOCK_STATUS)
		return block_status(conn, nbd);
	request = begin(conn, nbd);
	if (!request)
		return false;
	if (nbd->type == NBD_CMD_CACHE) {
		ask(request, read_ahead, was_read_ahead);
		return true;
	}
	prepare(request);
	submit(request, done_alone);
	return true;
}

/* False: it has to wait. */
static bool
take_one(struct conn *conn, const struct taken *taken, struct ahead *ahead)
{
	const struct nbd_request *nbd = &taken->nbd;

	switch (taken->verdict) {
	case NBD_VERDICT_SERVE:
		if (conn->refusing)
			return refuse(conn, taken, NBD_ESHUTDOWN, "the server is ending");
		if (nbd->type == NBD_CMD_READ || nbd->type == NBD_CMD_WRITE)
			return transfer(conn, taken, ahead);
		if (!other(conn, nbd))
			return false;
		break;
	case NBD_VERDICT_NOTHING:
	case NBD_VERDICT_REFUSE: return answer(conn, taken);
	case NBD_VERDICT_DISCONNECT:
		conn->took_leave = true;
		conn_end(conn, false);
		break;
	case NBD_VERDICT_DROP:
		conn_warn(conn, taken->check.message);
		conn_end(conn, true);
		break;
	}
	conn->input_start += size_in_input(conn, taken);
	return true;
}

static void
drop(struct conn *conn)
{
	size_t there = conn->input_end - conn->input_start;
	size_t n = conn->to_drop < there ? (size_t)conn->to_drop : there;

	conn->input_start += n;
	conn->to_drop -= n;
	if (conn->refused && !conn->to_drop)
		finish(steal_pointer(&conn->refused));
}

void
requests_take(struct conn *conn)
{
	struct ahead ahead = {.there = false};
	struct taken taken;
	int r = 1;

	/* It may have been resized. */
	conn->session.size = image_size(conn->served->image);
	conn->stalled = false;
	while (!conn->closing && !conn->filling) {
		drop(conn);
		if (conn->to_drop)
			break;
		if (ahead.there)
			taken = ahead.taken;
		else
			r = decode(conn, conn->input_start, &taken);
		if (r <= 0)
			break;
		ahead.there = false;
		if (conn->requests >= CONN_REQUESTS || !take_one(conn, &taken, &ahead)) {
			stall(conn);
			break;
		}
	}
	if (r < 0) {
		conn_warn(conn, "what came is no request");
		conn_end(conn, true);
	}
	if (conn->input_start == conn->input_end)
		conn->input_start = conn->input_end = 0;
}
