/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/request/requests.h"

#include "server/connection/conn_state.h"
#include "server/connection/early.h"
#include "server/request/holes.h"
#include "server/connection/peer.h"
#include "server/request/probes.h"
#include "server/connection/replies.h"
#include "server/request/request.h"
#include "server/connection/offer.h"
#include "server/request/traffic.h"
#include "server/worker/worker_contexts.h"

#include "common/log.h"
#include "engine/changes/checkpoint.h"
#include "engine/image/extent.h"
#include "engine/image/image_status.h"

#include <errno.h>
#include <string.h>

/* Bytes for the extents of one reply: 1,000 or 2,000 extents, by the form of replies. */
#define STATUS_SIZE ((size_t)16 << 10)

/* A client that is told of an error would not look for the image elsewhere. */
static void
end_after_loss(struct conn *conn)
{
	if (!conn->lost)
		conn_warn(conn, "another server may have the image now");
	conn_abort(conn);
}

/* The image has the request's result. */
static void
note_result(struct request *request, int result)
{
	struct conn *conn = request->conn;

	request->result = result;
	PROBE(done, request);
	if (result == -ESHUTDOWN)
		end_after_loss(conn);
}

static void
complete(struct request *request, int result)
{
	note_result(request, result);
	reply_result(request, result);
}

static void
done_alone(struct io *io)
{
	complete(request_of_io(io), io->result);
}

static void
done_early(struct io *io)
{
	struct request *request = request_of_io(io);

	early_end(request);
	note_result(request, io->result);
	if (io->result == 0)
		reply_rest(request, request->early.sent);
	else
		reply_result(request, io->result);
}

static void
submit(struct request *request, void (*done)(struct io *io))
{
	struct worker_context *context = request->conn->context;

	request->io.done = done;
	worker_context_mark(context);
	PROBE_IO(submitted, request);
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

/* A lost connection's changes are dropped.  While a change waited, its client may have given up and
 * repeated it over another connection: see peer_may_change(). */
static bool
wanted(struct io *io)
{
	struct conn *conn = request_of_io(io)->conn;

	if (conn->lost)
		return false;
	if (peer_may_change(conn)) {
		/* Counted while the range is held, so that the next holder sees it. */
		traffic_change(conn->context->traffic);
		conn->presence.changes++;
		return true;
	}
	conn_warn(conn, CONN_GAVE_UP);
	conn_abort(conn);
	return false;
}

/* Fills the io of a request, on its part of the leader's buffer. */
static void
prepare(struct request *request)
{
	request->io.op = operation(&request->nbd);
	request->io.flags = io_flags(&request->nbd);
	request->io.offset = request->nbd.offset;
	request->io.length = request->nbd.length;
	request->io.buffer = request->data;
	request->io.registered = request->leader->buffer.registered;
	request->io.arrived = NULL;
	request->io.wanted = request->io.op == IO_READ ? NULL : wanted;
}

/* Submits a read or write that is not merged. */
static void
submit_alone(struct request *request)
{
	if (request->nbd.length < EARLY_READ || !early_is_possible(request)) {
		submit(request, done_alone);
		return;
	}
	early_begin(request);
	submit(request, done_early);
}

static void
done_again(struct io *io);

static void
try_again(struct request *request)
{
	prepare(request);
	request->io.done = done_again;
	worker_context_mark(request->conn->context);
	PROBE_IO(submitted, request);
	io_retry_part(&request->leader->io, &request->io);
}

/* A member of a failed merged request has been tried by itself.  The next member waited for that:
 * the two may share a block, and within the range of all nothing else keeps them apart. */
static void
done_again(struct io *io)
{
	struct request *request = request_of_io(io);

	if (request->member)
		try_again(request->member);
	else
		io_release_range(&request->leader->io);
	complete(request, io->result);
}

static void
done_merged(struct io *io)
{
	struct request *leader = request_of_io(io), *next;
	int result = io->result;

	/* At least one member has the error: each is tried by itself, to find out which.  The range
	 * of all stays held, since the changes that wait for it are newer.  What was written
	 * already, or comes from a lost connection, isn't written again. */
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
	if (leader->member)
		submit(leader, done_merged);
	else
		submit_alone(leader);
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

/* Takes a buffer, and reads.  False: no memory now. */
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
	submit_alone(request);
	return true;
}

void
requests_feed(struct conn *conn)
{
	while (conn->hungry) {
		struct request *request = conn->hungry, *next = request->next;

		if (conn->lost) {
			/* It may have been the last request that the connection waited for. */
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

/* The read takes a buffer only now, unless it is a single hole. */
static void
holes_found(struct request *request)
{
	struct conn *conn = request->conn;

	if (request->part_count == 1) {
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
	/* If the client asks for one extent, the first is enough, unless it ends within a block. */
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

static int
add_run(void *data, uint64_t offset, uint64_t length, bool changed)
{
	(void)offset;
	return nbd_status_add(data, length, changed ? NBD_STATE_DIRTY : 0) ? 0 : 1;
}

/* Lists what has changed since the checkpoint with the id of the list.  As checkpoint_visit(). */
static int
add_changes(struct checkpoints *set, struct nbd_status *status)
{
	struct checkpoint *checkpoint = checkpoint_hold(set, status->id);
	int r;

	if (!checkpoint)
		return -EIDRM;
	r = checkpoint_visit(checkpoint, status->request->offset, status->request->length, add_run,
			     status);
	checkpoint_release(checkpoint);
	return r;
}

/* Appends the list of a context to the reply.  `left`: contexts that come after it. */
static int
find_list(struct request *request, uint32_t id, unsigned int left)
{
	struct export *export = request->conn->offer->export;
	const struct nbd_request *nbd = &request->nbd;
	size_t room = (STATUS_SIZE - request->data_length) / (left + 1);
	struct nbd_status status;
	int r;

	nbd_status_init(&status, &request->conn->session, nbd,
			(uint8_t *)request->buffer.memory + request->data_length, room);
	status.id = id;
	status.last = !left;
	r = id == NBD_ALLOCATION_ID ? extents_visit(export->image, nbd->offset, nbd->length, false,
						    add_extent, &status)
				    : add_changes(export->checkpoints, &status);
	if (r >= 0)
		request->data_length += nbd_status_finish(&status);
	return r;
}

/* On a helper's thread. */
static void
find_status(struct helper_job *job)
{
	struct request *request = request_of_job(job);
	const struct nbd_session *session = &request->conn->session;
	int r = 0;

	request->data_length = 0;
	if (session->allocation)
		r = find_list(request, NBD_ALLOCATION_ID, session->bitmap_count);
	for (unsigned int i = 0; r >= 0 && i < session->bitmap_count; i++)
		r = find_list(request, session->bitmaps[i], session->bitmap_count - 1 - i);
	request->result = r;
}

static void
status_found(struct helper_job *job)
{
	struct request *request = request_of_job(job);

	if (request->result == -EIDRM) {
		reply_error(request, NBD_EINVAL, "the checkpoint has been deleted");
		return;
	}
	if (request->result == -ENODATA) {
		reply_error(request, NBD_EINVAL,
			    "what has changed since the checkpoint is unknown: take a full backup");
		return;
	}
	if (request->result < 0) {
		log_status_failure(request->conn->offer->export->image, &request->nbd,
				   request->result);
		if (request->result == -ESHUTDOWN)
			end_after_loss(request->conn);
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
	request_ask_helper(request, find_status, status_found);
	return true;
}

static void
read_ahead(struct helper_job *job)
{
	struct request *request = request_of_job(job);

	request->result = image_cache(request->conn->offer->export->image, request->nbd.offset,
				      request->nbd.length);
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
		request_ask_helper(request, read_ahead, read_ahead_done);
		return true;
	}
	prepare(request);
	submit(request, done_alone);
	return true;
}
