/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/io_op.h"

#include "tests/simulation/chance.h"
#include "tests/simulation/descriptor.h"
#include "tests/simulation/file.h"
#include "tests/simulation/io_ring.h"
#include "tests/simulation/process.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

struct io_op {
	struct io_ring *ring;
	struct io_uring_sqe sqe;
	struct process *process;
	struct description *file; /* NULL: none */
	struct io_buffer *buffer; /* NULL: none */
	struct iovec *iov;
	size_t iov_count;
	bool release; /* no operation: memory is released late */
	bool waits;   /* for a socket; it can be cancelled */
	bool due;     /* it goes on when the ring's thread is in the kernel */
	bool cancelled;
	long result; /* of the part that a socket has taken */
	struct fiber *fiber;
	struct io_op *next;
};

static struct io_op *ops;

static void
io_op_free(struct io_op *op)
{
	struct io_op **at = &ops;

	while (*at != op)
		at = &(*at)->next;
	*at = op->next;
	if (op->file)
		descriptor_put(op->file);
	descriptor_put(&op->ring->description);
	free(op->iov);
	free(op);
}

static void
io_op_end(struct io_op *op, long result)
{
	struct io_buffer *buffer = op->buffer;
	const bool whole = result >= 0 && op->iov_count == 0;

	if (!(op->sqe.flags & IOSQE_CQE_SKIP_SUCCESS) || !whole)
		io_ring_post(op->ring, op->sqe.user_data, (int)result);
	if (buffer)
		io_buffer_put(op->ring, buffer);
	io_op_free(op);
}

static void
io_ops_go_on_after_call(void);

static struct io_op *
io_op_new(struct io_ring *ring)
{
	struct io_op *op = calloc(1, sizeof(*op));

	descriptor_after_call = io_ops_go_on_after_call;
	op->ring = ring;
	ring->description.users++;
	op->process = process_self();
	op->next = ops;
	ops = op;
	return op;
}

static void *
io_op_release(void *data)
{
	struct io_op *op = data;

	scheduler_sleep((int64_t)chance_below(1000) * MILLISECOND);
	io_op_end(op, 0);
	return NULL;
}

static void
io_op_start(struct io_op *op, void *(*run)(void *data))
{
	op->fiber = scheduler_start("kernel", op->process, run, op);
	op->fiber->detached = true;
}

void
io_buffer_put(struct io_ring *ring, struct io_buffer *buffer)
{
	const uint64_t tag = buffer->tag;
	struct io_op *op;

	if (--buffer->users)
		return;
	free(buffer);
	if (!tag)
		return;
	if (!io_ring_mood.late_release) {
		io_ring_post(ring, tag, 0);
		return;
	}
	op = io_op_new(ring);
	op->release = true;
	op->sqe.user_data = tag;
	io_op_start(op, io_op_release);
}

static long
io_op_do_file(const struct io_op *op)
{
	const struct io_uring_sqe *sqe = &op->sqe;
	void *bytes = (void *)(uintptr_t)sqe->addr;

	switch (sqe->opcode) {
	case IORING_OP_READ:
	case IORING_OP_READ_FIXED: return file_read(op->file, bytes, sqe->len, sqe->off);
	case IORING_OP_WRITE:
	case IORING_OP_WRITE_FIXED:
		return file_write(op->file, bytes, sqe->len, sqe->off, (int)sqe->rw_flags);
	case IORING_OP_FSYNC: return file_sync(op->file, "fdatasync");
	default: return file_allocate(op->file, (int)sqe->len, sqe->off, sqe->addr);
	}
}

static void *
io_op_run_file(void *data)
{
	struct io_op *op = data;

	io_op_end(op, io_op_do_file(op));
	return NULL;
}

/* Transfers what can be transferred now. Returns whether the operation is over. */
static bool
io_op_try_socket(struct io_op *op)
{
	const struct description_kind *kind = op->file->kind;
	const bool receives = op->sqe.opcode == IORING_OP_RECV;
	const bool all = op->sqe.msg_flags & MSG_WAITALL && io_ring_mood.wait_all;

	while (op->iov_count) {
		struct iovec *iov = op->iov;
		const long n = !iov->iov_len ? 0
			       : receives    ? kind->read(op->file, iov->iov_base, iov->iov_len)
					     : kind->write(op->file, iov->iov_base, iov->iov_len);

		if (n == -EAGAIN && (all || !op->result))
			return false;
		if (n < 0 || (n == 0 && iov->iov_len)) {
			if (!op->result)
				op->result = n;
			return true;
		}
		op->result += n;
		iov->iov_base = (char *)iov->iov_base + n;
		iov->iov_len -= (size_t)n;
		if (iov->iov_len && !all)
			return true;
		if (!iov->iov_len)
			memmove(iov, iov + 1, --op->iov_count * sizeof(*iov));
	}
	return true;
}

static short
io_op_wishes(const struct io_op *op)
{
	return op->sqe.opcode == IORING_OP_POLL_ADD ? (short)op->sqe.poll32_events
	       : op->sqe.opcode == IORING_OP_RECV   ? POLLIN
						    : POLLOUT;
}

static short
io_op_events(const struct io_op *op)
{
	return op->file->kind->events(op->file) & (short)(io_op_wishes(op) | POLLERR | POLLHUP);
}

static bool
io_op_can_go_on(void *data)
{
	const struct io_op *op = data;

	return op->cancelled || io_op_events(op);
}

/* Returns whether a socket's operation is over. */
static bool
io_op_try(struct io_op *op)
{
	if (op->sqe.opcode != IORING_OP_POLL_ADD)
		return io_op_try_socket(op);
	op->result = io_op_events(op);
	return op->result != 0;
}

static bool
io_op_is_not_due(void *data)
{
	return !((const struct io_op *)data)->due;
}

/* Waits until io_ops_go_on() has tried it, which ends this fiber if it is over. */
static void
io_op_await_thread(struct io_op *op)
{
	op->due = true;
	io_ring_note_due(op->ring);
	scheduler_wait("the ring's thread", io_op_is_not_due, op, FOR_EVER);
}

static void *
io_op_run_socket(void *data)
{
	struct io_op *op = data;
	bool over = false;

	do {
		op->waits = true;
		scheduler_wait("a socket", io_op_can_go_on, op, FOR_EVER);
		op->waits = false;
		if (op->cancelled) {
			io_op_end(op, op->result ? op->result : -ECANCELED);
			return NULL;
		}
		if (op->ring->flags & (IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN))
			io_op_await_thread(op);
		else
			over = io_op_try(op);
	} while (!over);
	io_op_end(op, op->result);
	return NULL;
}

static void
io_op_go_on(struct io_op *op)
{
	op->due = false;
	op->ring->due--;
	if (!io_op_try(op))
		return;
	scheduler_remove(op->fiber);
	io_op_end(op, op->result);
}

/* With IORING_SETUP_COOP_TASKRUN, each call of the ring's thread does that. */
static void
io_ops_go_on_after_call(void)
{
	struct io_op *next;

	for (struct io_op *op = ops; op; op = next) {
		next = op->next;
		if (op->due && op->ring->maker == scheduler_self()->id &&
		    !(op->ring->flags & IORING_SETUP_DEFER_TASKRUN))
			io_op_go_on(op);
	}
}

void
io_ops_go_on(struct io_ring *ring)
{
	struct io_op *next;

	for (struct io_op *op = ops; op && ring->due; op = next) {
		next = op->next;
		if (op->ring == ring && op->due)
			io_op_go_on(op);
	}
}

static int
io_op_cancel(const struct io_op *op)
{
	for (struct io_op *other = ops; other; other = other->next) {
		if (other == op || other->release || other->ring != op->ring ||
		    other->sqe.user_data != op->sqe.addr)
			continue;
		if (!other->waits || other->cancelled)
			return -EALREADY;
		other->cancelled = true;
		return 0;
	}
	return -ENOENT;
}

/* Finds the file and the memory. Returns 0 or -errno. */
static int
io_op_prepare(struct io_op *op)
{
	const struct io_uring_sqe *sqe = &op->sqe;
	struct io_ring *ring = op->ring;
	struct io_buffer *buffer;

	if (sqe->flags & ~(IOSQE_FIXED_FILE | IOSQE_ASYNC | IOSQE_CQE_SKIP_SUCCESS))
		trace_fail("an SQE has the flags %u", sqe->flags);
	if (sqe->opcode == IORING_OP_NOP || sqe->opcode == IORING_OP_ASYNC_CANCEL)
		return 0;
	if (sqe->flags & IOSQE_FIXED_FILE)
		op->file = (unsigned int)sqe->fd < ring->file_count ? ring->files[sqe->fd] : NULL;
	else
		op->file = descriptor_find(sqe->fd, NULL);
	if (!op->file)
		return -EBADF;
	op->file->users++;
	if (sqe->opcode != IORING_OP_READ_FIXED && sqe->opcode != IORING_OP_WRITE_FIXED)
		return 0;
	buffer = sqe->buf_index < ring->buffer_count ? ring->buffers[sqe->buf_index] : NULL;
	if (!buffer || sqe->addr < (uintptr_t)buffer->start ||
	    sqe->addr + sqe->len > (uintptr_t)buffer->start + buffer->length)
		trace_fail("an operation of a ring uses memory that is not registered");
	op->buffer = buffer;
	buffer->users++;
	return 0;
}

static void
io_op_copy_message(struct io_op *op)
{
	const struct msghdr *message = (const struct msghdr *)(uintptr_t)op->sqe.addr;
	struct iovec only = {(void *)(uintptr_t)op->sqe.addr, op->sqe.len};
	const struct iovec *iov = &only;

	op->iov_count = 1;
	if (op->sqe.opcode == IORING_OP_SENDMSG) {
		iov = message->msg_iov;
		op->iov_count = message->msg_iovlen;
	}
	op->iov = malloc(op->iov_count * sizeof(*iov) + 1);
	memcpy(op->iov, iov, op->iov_count * sizeof(*iov));
}

static void
io_op_begin_socket(struct io_op *op)
{
	if (op->sqe.opcode != IORING_OP_POLL_ADD)
		io_op_copy_message(op);
	if (op->sqe.msg_flags & MSG_DONTWAIT) {
		const bool over = io_op_try_socket(op);

		io_op_end(op, over || op->result ? op->result : -EAGAIN);
		return;
	}
	/* What is ready is mostly taken at once, without a wait. */
	if (!chance_once_in(4) && io_op_try(op))
		io_op_end(op, op->result);
	else
		io_op_start(op, io_op_run_socket);
}

void
io_op_begin(struct io_ring *ring, const struct io_uring_sqe *sqe)
{
	struct io_op *op = io_op_new(ring);
	int r;

	op->sqe = *sqe;
	r = io_op_prepare(op);
	if (r < 0) {
		io_op_end(op, r);
		return;
	}
	switch (sqe->opcode) {
	case IORING_OP_NOP: io_op_end(op, 0); break;
	case IORING_OP_ASYNC_CANCEL: io_op_end(op, io_op_cancel(op)); break;
	case IORING_OP_RECV:
	case IORING_OP_SENDMSG:
	case IORING_OP_POLL_ADD: io_op_begin_socket(op); break;
	case IORING_OP_READ:
	case IORING_OP_READ_FIXED:
	case IORING_OP_WRITE:
	case IORING_OP_WRITE_FIXED:
	case IORING_OP_FSYNC:
	case IORING_OP_FALLOCATE:
		/* The kernel could make no thread for it. */
		if (disk_strikes(io_ring_mood.cancel))
			io_op_end(op, -ECANCELED);
		else
			io_op_start(op, io_op_run_file);
		break;
	default: trace_fail("operation %u of a ring is not simulated", sqe->opcode);
	}
}

void
io_ops_drop(struct process *process)
{
	struct io_op *next;

	for (struct io_op *op = ops; op; op = next) {
		next = op->next;
		if (op->process != process)
			continue;
		if (op->buffer && !--op->buffer->users)
			free(op->buffer);
		io_op_free(op);
	}
}

void
io_ops_end(const struct io_ring *ring)
{
	struct io_op *next;

	for (struct io_op *op = ops; op; op = next) {
		next = op->next;
		if (op->ring != ring)
			continue;
		if (!op->release)
			trace_fail("a ring is freed while operation %u is in flight",
				   op->sqe.opcode);
		scheduler_remove(op->fiber);
		io_op_free(op);
	}
}
