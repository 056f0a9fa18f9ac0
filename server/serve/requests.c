/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/serve/requests.h"

#include "server/serve/conn_state.h"
#include "server/serve/holes.h"
#include "server/serve/peer.h"
#include "server/serve/probes.h"
#include "server/serve/replies.h"
#include "server/serve/request.h"
#include "server/serve/served.h"
#include "server/serve/traffic.h"
#include "server/serve/worker_contexts.h"

#include "common/log.h"
#include "engine/context/ioctx.h"
#include "engine/image/extent.h"

#include <string.h>

/* For the extents of one reply: up to 1,000 or 2,000 of them. */
#define STATUS_SIZE ((size_t)16 << 10)

/* The image has carried it out, or failed to. */
static void
complete(struct request *request, int result)
{
	struct conn *conn = request->conn;

	request->result = result;
	probe_done(request);
	traffic_count(conn->context->traffic, request->leader->io.op,
		      worker_now(conn->worker) - request->begun);
	reply_result(request, result);
}

static void
done_alone(struct io *io)
{
	complete((struct request *)io, io->result);
}

static void
submit(struct request *request, void (*done)(struct io *io))
{
	struct worker_context *context = request->conn->context;

	request->io.done = done;
	worker_context_mark(context);
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

/* A lost connection's changes are dropped.  A change that has waited may come from a client that
 * has lost patience meanwhile, and has sent it again over another connection: see
 * peer_may_change(). */
static bool
wanted(struct io *io)
{
	struct conn *conn = ((struct request *)io)->conn;

	if (conn->lost)
		return false;
	if (peer_may_change(conn)) {
		/* Now, since the range is held: a client that gets it next must see this. */
		traffic_change(conn->context->traffic);
		conn->presence.changes++;
		return true;
	}
	conn_warn(conn, CONN_GAVE_UP);
	conn_abort(conn);
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
	worker_context_mark(request->conn->context);
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
	complete(request, io->result);
}

static void
done_merged(struct io *io)
{
	struct request *leader = (struct request *)io, *next;
	int result = io->result;

	/* The error is of one or some of the merged requests: each is tried by itself, to find out;
	 * under the range of all, since what has waited for it is newer.  A request that was
	 * written isn't written again, nor is one of a lost connection. */
	if (result < 0 && !io->written && !leader->conn->lost) {
		try_again(leader);
		return;
	}
	io_release_range(io);
	for (struct request *request = leader; request; request = next) {
		next = request->member;
		complete(request, result);
	}
}

void
requests_transfer(struct request *leader, size_t length)
{
	prepare(leader);
	leader->io.length = length;
	if (leader->member && leader->io.op == IO_WRITE)
		leader->io.flags |= IO_KEEP_RANGE;
	submit(leader, leader->member ? done_merged : done_alone);
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

/* ---- reads that may have holes */

/* False: no memory now. */
static bool
read_data(struct request *request)
{
	struct conn *conn = request->conn;

	if (!request_take_buffer(request, request->nbd.length)) {
		if (conn->worker->buffers.taken > 0)
			return false;
		reply_error(request, NBD_ENOMEM, REPLY_NO_MEMORY);
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
			request_finish(request);
			conn_mark_dirty(conn);
		} else if (!read_data(request)) {
			conn_stall(conn);
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
		reply_result(request, 0);
		return;
	}
	request->next = NULL;
	*conn->hungry_tail = request;
	conn->hungry_tail = &request->next;
	requests_feed(conn);
}

void
requests_read_sparse(struct request *request)
{
	holes_find(request, holes_found);
}

/* ---- requests without a payload in either direction */

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
ask_helper(struct request *request, void (*work)(struct helper_job *job),
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
	reply_add(request);
}

static bool
block_status(struct conn *conn, const struct nbd_request *nbd)
{
	struct request *request = request_begin(conn, nbd);

	if (!request)
		return false;
	if (!request_take_buffer(request, STATUS_SIZE)) {
		request_finish(request);
		return false;
	}
	ask_helper(request, find_status, status_found);
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
read_ahead_done(struct helper_job *job)
{
	struct request *request = request_of_job(job);

	reply_result(request, request->result);
}

bool
requests_carry_out(struct conn *conn, const struct nbd_request *nbd)
{
	struct request *request;

	if (nbd->type == NBD_CMD_BLOCK_STATUS)
		return block_status(conn, nbd);
	request = request_begin(conn, nbd);
	if (!request)
		return false;
	if (nbd->type == NBD_CMD_CACHE) {
		ask_helper(request, read_ahead, read_ahead_done);
		return true;
	}
	prepare(request);
	submit(request, done_alone);
	return true;
}
