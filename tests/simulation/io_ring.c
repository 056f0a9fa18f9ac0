/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/io_ring.h"

#include "tests/simulation/call.h"
#include "tests/simulation/chance.h"
#include "tests/simulation/descriptor.h"
#include "tests/simulation/file.h"
#include "tests/simulation/memory.h"
#include "tests/simulation/process.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* Of a mood's small queues. */
#define FEW_ENTRIES     4u
#define FEW_COMPLETIONS 8u

/* SQEs of a large ring. */
#define MANY_ENTRIES 256u

/* How many files a process may have open (getrlimit() in surroundings.c). */
#define FILES_MAX 1024u

struct io_ring_mood io_ring_mood;

/* Registered memory. */
struct io_buffer {
	char *start;
	size_t length;
	uint64_t tag;       /* of the completion that tells of its release; 0: none */
	unsigned int users; /* operations, and the table */
};

/* A completion that is not in the queue yet. */
struct io_late {
	struct io_uring_cqe cqe;
	struct io_late *next;
};

struct io_lates {
	struct io_late *first, **last;
};

struct io_ring {
	struct description description;
	unsigned int flags;
	unsigned int maker; /* the fiber */
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
	unsigned int entries, completions; /* places of both, powers of two */
	unsigned int sq_head, sq_tail, sq_flags, cq_head, cq_tail;
	struct description **files;
	unsigned int file_count;
	struct io_buffer **buffers;
	unsigned int buffer_count;
	struct description *event;
	struct io_lates overflow; /* the queue had no room */
	struct io_lates deferred; /* the ring's thread must ask for them */
	bool submits;             /* its thread is in the kernel, which may add completions */
};

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
	bool cancelled;
	long result; /* of the part that a socket has taken */
	struct fiber *fiber;
	struct io_op *next;
};

static struct io_op *ops;

/* ---- completions */

static void
lates_add(struct io_lates *lates, const struct io_uring_cqe *cqe)
{
	struct io_late *late = calloc(1, sizeof(*late));

	memcpy(&late->cqe, cqe, sizeof(*cqe));
	if (!lates->first)
		lates->last = &lates->first;
	*lates->last = late;
	lates->last = &late->next;
}

static void
lates_drop_first(struct io_lates *lates)
{
	struct io_late *late = lates->first;

	lates->first = late->next;
	free(late);
}

static unsigned int
io_ring_ready(const struct io_ring *ring)
{
	return ring->cq_tail - ring->cq_head;
}

static bool
io_ring_put(struct io_ring *ring, const struct io_uring_cqe *cqe)
{
	if (io_ring_ready(ring) == ring->completions)
		return false;
	memcpy(&ring->cqes[ring->cq_tail % ring->completions], cqe, sizeof(*cqe));
	ring->cq_tail++;
	return true;
}

static void
io_ring_publish(struct io_ring *ring, const struct io_uring_cqe *cqe)
{
	if (!ring->overflow.first && io_ring_put(ring, cqe))
		return;
	lates_add(&ring->overflow, cqe);
	ring->sq_flags |= IORING_SQ_CQ_OVERFLOW;
}

static void
io_ring_post(struct io_ring *ring, uint64_t user_data, int result)
{
	static const uint64_t one = 1;
	const struct io_uring_cqe cqe = {.user_data = user_data, .res = result};

	if (ring->flags & IORING_SETUP_DEFER_TASKRUN && !ring->submits) {
		lates_add(&ring->deferred, &cqe);
		if (ring->flags & IORING_SETUP_TASKRUN_FLAG)
			ring->sq_flags |= IORING_SQ_TASKRUN;
	} else {
		io_ring_publish(ring, &cqe);
	}
	if (ring->event)
		ring->event->kind->write(ring->event, &one, sizeof(one));
}

/* What the ring's thread gets when it asks. */
static void
io_ring_flush(struct io_ring *ring)
{
	while (ring->overflow.first && io_ring_put(ring, &ring->overflow.first->cqe))
		lates_drop_first(&ring->overflow);
	if (!ring->overflow.first)
		ring->sq_flags &= ~IORING_SQ_CQ_OVERFLOW;
	while (ring->deferred.first) {
		io_ring_publish(ring, &ring->deferred.first->cqe);
		lates_drop_first(&ring->deferred);
	}
	ring->sq_flags &= ~IORING_SQ_TASKRUN;
}

/* ---- the ring's descriptor */

static short
io_ring_events(struct description *description)
{
	return io_ring_ready((struct io_ring *)description) ? POLLIN : 0;
}

static void
io_ring_forget_files(struct io_ring *ring)
{
	for (unsigned int i = 0; i < ring->file_count; i++)
		if (ring->files[i])
			descriptor_put(ring->files[i]);
	free(ring->files);
	ring->files = NULL;
	ring->file_count = 0;
}

static void
io_ring_free(struct description *description)
{
	struct io_ring *ring = (struct io_ring *)description;

	io_ring_forget_files(ring);
	for (unsigned int i = 0; i < ring->buffer_count; i++)
		free(ring->buffers[i]);
	free(ring->buffers);
	if (ring->event)
		descriptor_put(ring->event);
	while (ring->overflow.first)
		lates_drop_first(&ring->overflow);
	while (ring->deferred.first)
		lates_drop_first(&ring->deferred);
	free(ring->sqes);
	free(ring->cqes);
	free(ring);
}

static const struct description_kind kind_io_ring = {
	.name = "a ring",
	.events = io_ring_events,
	.free = io_ring_free,
};

static struct io_ring *
io_ring_of(const struct io_uring *uring)
{
	struct io_ring *ring = (struct io_ring *)descriptor_find(uring->ring_fd, &kind_io_ring);

	if (!ring)
		trace_fail("a ring is used that is not there");
	return ring;
}

/* ---- operations */

static void
io_buffer_put(struct io_ring *ring, struct io_buffer *buffer);

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

	io_ring_post(op->ring, op->sqe.user_data, (int)result);
	if (buffer)
		io_buffer_put(op->ring, buffer);
	io_op_free(op);
}

static struct io_op *
io_op_new(struct io_ring *ring)
{
	struct io_op *op = calloc(1, sizeof(*op));

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

static void
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

static void *
io_op_run_socket(void *data)
{
	struct io_op *op = data;

	do {
		op->waits = true;
		scheduler_wait("a socket", io_op_can_go_on, op, FOR_EVER);
		op->waits = false;
		if (op->cancelled) {
			io_op_end(op, op->result ? op->result : -ECANCELED);
			return NULL;
		}
	} while (!io_op_try(op));
	io_op_end(op, op->result);
	return NULL;
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

	if (sqe->flags & ~(IOSQE_FIXED_FILE | IOSQE_ASYNC))
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
	/* What is ready is mostly taken at once, without a wait. */
	if (!chance_once_in(4) && io_op_try(op))
		io_op_end(op, op->result);
	else
		io_op_start(op, io_op_run_socket);
}

static void
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
io_rings_drop(struct process *process)
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

/* ---- entering the kernel */

static unsigned int
io_ring_queued(struct io_ring *ring, struct io_uring *uring)
{
	uring->sq.sqe_head = ring->sq_tail = uring->sq.sqe_tail;
	return ring->sq_tail - ring->sq_head;
}

/* Returns how many were taken, or -errno. */
static int
io_ring_take(struct io_ring *ring, unsigned int count)
{
	unsigned int taken = 0;

	if (!count)
		return 0;
	/* Linux before 5.19: it tries to find room first. */
	if (ring->overflow.first && io_ring_mood.busy) {
		io_ring_flush(ring);
		if (ring->overflow.first)
			return -EBUSY;
	}
	if (chance_once_in(io_ring_mood.refuse)) {
		count = (unsigned int)chance_below(count);
		if (!count)
			return -EAGAIN;
	}
	ring->submits = true;
	for (; taken < count; taken++) {
		io_op_begin(ring, &ring->sqes[ring->sq_head % ring->entries]);
		ring->sq_head++;
		if (chance_once_in(8))
			scheduler_yield();
	}
	ring->submits = false;
	return (int)taken;
}

struct io_wait {
	struct io_ring *ring;
	unsigned int min;
};

static bool
io_ring_has_enough(void *data)
{
	const struct io_wait *wait = data;
	const struct io_ring *ring = wait->ring;
	unsigned int count = io_ring_ready(ring);

	if (ring->overflow.first)
		return true;
	for (const struct io_late *late = ring->deferred.first; late; late = late->next)
		count++;
	return count >= wait->min;
}

/* Returns 0, -EINTR, or -ETIME. */
static int
io_ring_await(struct io_ring *ring, unsigned int min, int64_t until)
{
	struct io_wait wait = {ring, min};
	bool came = true;

	io_ring_flush(ring);
	if (io_ring_ready(ring) >= min)
		return 0;
	if (chance_once_in(500))
		return -EINTR;
	came = scheduler_wait("events", io_ring_has_enough, &wait, until);
	io_ring_flush(ring);
	return came ? 0 : -ETIME;
}

/* io_uring_enter(). `gets`: IORING_ENTER_GETEVENTS. */
static int
io_ring_enter(struct io_ring *ring, unsigned int count, bool gets, unsigned int min, int64_t until)
{
	int taken, r;

	if (ring->flags & IORING_SETUP_SINGLE_ISSUER && ring->maker != scheduler_self()->id)
		trace_fail("%s uses the ring of another thread", scheduler_name());
	taken = io_ring_take(ring, count);
	if (chance_once_in(8))
		scheduler_yield();
	if (taken < 0 || (unsigned int)taken < count || !gets)
		return taken;
	if (min > ring->completions)
		min = ring->completions;
	r = io_ring_await(ring, min, until);
	return taken ? taken : r;
}

static bool
io_ring_must_flush(const struct io_ring *ring)
{
	return ring->sq_flags & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN);
}

CALL(int, io_uring_submit, struct io_uring *uring)
{
	struct io_ring *ring = io_ring_of(uring);
	const unsigned int count = io_ring_queued(ring, uring);
	const bool gets = io_ring_must_flush(ring);

	return count || gets ? io_ring_enter(ring, count, gets, 0, FOR_EVER) : 0;
}

CALL(int, io_uring_submit_and_wait, struct io_uring *uring, unsigned int min)
{
	struct io_ring *ring = io_ring_of(uring);
	const unsigned int count = io_ring_queued(ring, uring);
	const bool gets = min || io_ring_must_flush(ring);

	return count || gets ? io_ring_enter(ring, count, gets, min, FOR_EVER) : 0;
}

CALL(int, io_uring_submit_and_get_events, struct io_uring *uring)
{
	struct io_ring *ring = io_ring_of(uring);

	return io_ring_enter(ring, io_ring_queued(ring, uring), true, 0, FOR_EVER);
}

CALL(int, io_uring_get_events, struct io_uring *uring)
{
	return io_ring_enter(io_ring_of(uring), 0, true, 0, FOR_EVER);
}

/* As liburing does it: a completion that is there makes waiting unnecessary, and the result of a
 * wait that took SQEs is only seen by asking again. */
CALL(int, io_uring_submit_and_wait_timeout, struct io_uring *uring, struct io_uring_cqe **cqe,
     unsigned int min, struct __kernel_timespec *limit, sigset_t *mask)
{
	struct io_ring *ring = io_ring_of(uring);
	const int64_t until = scheduler_now() + limit->tv_sec * SECOND + limit->tv_nsec;
	int r = io_ring_enter(ring, io_ring_queued(ring, uring), true, min, until);

	(void)mask;
	*cqe = NULL;
	if (r >= 0 && io_ring_ready(ring) < min)
		return -ETIME;
	return r;
}

CALL(int, __io_uring_get_cqe, struct io_uring *uring, struct io_uring_cqe **cqe,
     unsigned int submit, unsigned int min, sigset_t *mask)
{
	struct io_ring *ring = io_ring_of(uring);
	int r = 0;

	(void)submit;
	(void)mask;
	while (r == 0 && io_ring_ready(ring) < min)
		r = io_ring_enter(ring, 0, true, min, FOR_EVER);
	*cqe = io_ring_ready(ring) ? &ring->cqes[ring->cq_head % ring->completions] : NULL;
	return r;
}

/* ---- set-up */

static unsigned int
power_of_two(unsigned int least)
{
	unsigned int n = 1;

	while (n < least)
		n *= 2;
	return n;
}

static int
io_ring_check_flags(unsigned int flags)
{
	const unsigned int known = IORING_SETUP_CQSIZE | IORING_SETUP_COOP_TASKRUN |
				   IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
				   IORING_SETUP_TASKRUN_FLAG;

	if (io_ring_mood.absent)
		return -ENOSYS;
	if (flags & ~known)
		return -EINVAL;
	if (flags & IORING_SETUP_DEFER_TASKRUN &&
	    (!io_ring_mood.defers || !(flags & IORING_SETUP_SINGLE_ISSUER)))
		return -EINVAL;
	return chance_once_in(io_ring_mood.refuse) ? -ENOMEM : 0;
}

/* What both sides share, as the product sees it. */
static void
io_ring_show(struct io_ring *ring, struct io_uring *uring)
{
	memset(uring, 0, sizeof(*uring));
	uring->sq.khead = &ring->sq_head;
	uring->sq.ktail = &ring->sq_tail;
	uring->sq.kflags = &ring->sq_flags;
	uring->sq.sqes = ring->sqes;
	uring->sq.ring_entries = ring->entries;
	uring->sq.ring_mask = ring->entries - 1;
	uring->cq.khead = &ring->cq_head;
	uring->cq.ktail = &ring->cq_tail;
	uring->cq.cqes = ring->cqes;
	uring->cq.ring_entries = ring->completions;
	uring->cq.ring_mask = ring->completions - 1;
	uring->flags = ring->flags;
}

CALL(int, io_uring_queue_init_params, unsigned int entries, struct io_uring *uring,
     struct io_uring_params *parameters)
{
	unsigned int completions = parameters->cq_entries;
	int r = io_ring_check_flags(parameters->flags);
	struct io_ring *ring;

	if (r < 0)
		return r;
	if (io_ring_mood.small && entries >= MANY_ENTRIES)
		return -ENOMEM;
	if (io_ring_mood.few_places && entries > FEW_ENTRIES) {
		entries = FEW_ENTRIES;
		completions = FEW_COMPLETIONS;
	}
	ring = calloc(1, sizeof(*ring));
	ring->description = (struct description){.kind = &kind_io_ring};
	ring->flags = parameters->flags;
	ring->maker = scheduler_self()->id;
	ring->entries = power_of_two(entries);
	ring->completions =
		power_of_two(completions > 2 * ring->entries ? completions : 2 * ring->entries);
	ring->sqes = calloc(ring->entries, sizeof(*ring->sqes));
	ring->cqes = calloc(ring->completions, sizeof(*ring->cqes));
	io_ring_show(ring, uring);
	r = descriptor_open(&ring->description);
	uring->ring_fd = uring->enter_ring_fd = r;
	return r < 0 ? r : 0;
}

/* Frees its operations that only wait to tell of memory. All others must have ended. */
static void
io_ring_end_ops(const struct io_ring *ring)
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

CALL(void, io_uring_queue_exit, struct io_uring *uring)
{
	io_ring_end_ops(io_ring_of(uring));
	descriptor_close(process_self(), uring->ring_fd);
}

CALL(struct io_uring_probe *, io_uring_get_probe_ring, struct io_uring *uring)
{
	const size_t size =
		sizeof(struct io_uring_probe) + IORING_OP_LAST * sizeof(struct io_uring_probe_op);
	struct io_uring_probe *probe = memory_take(size);

	(void)uring;
	if (!probe)
		return NULL;
	memset(probe, 0, size);
	probe->last_op = IORING_OP_LAST - 1;
	probe->ops_len = IORING_OP_LAST;
	for (unsigned int i = 0; i < IORING_OP_LAST; i++)
		probe->ops[i] = (struct io_uring_probe_op){.op = (uint8_t)i,
							   .flags = IO_URING_OP_SUPPORTED};
	return probe;
}

CALL(void, io_uring_free_probe, struct io_uring_probe *probe)
{
	memory_give(probe);
}

/* ---- registered files */

static int
io_ring_set_file(struct io_ring *ring, unsigned int place, int fd)
{
	struct description *file = fd < 0 ? NULL : descriptor_find(fd, NULL);

	if (place >= ring->file_count)
		return -EINVAL;
	if (fd >= 0 && !file)
		return -EBADF;
	if (file)
		file->users++;
	if (ring->files[place])
		descriptor_put(ring->files[place]);
	ring->files[place] = file;
	return 0;
}

CALL(int, io_uring_register_files_update, struct io_uring *uring, unsigned int first,
     const int *fds, unsigned int count)
{
	struct io_ring *ring = io_ring_of(uring);

	for (unsigned int i = 0; i < count; i++) {
		const int r = io_ring_set_file(ring, first + i, fds[i]);

		if (r < 0)
			return i ? (int)i : r;
	}
	return (int)count;
}

CALL(int, io_uring_register_files, struct io_uring *uring, const int *fds, unsigned int count)
{
	struct io_ring *ring = io_ring_of(uring);
	int r;

	if (ring->files)
		return -EBUSY;
	if (count > FILES_MAX && !io_ring_mood.many_files)
		return -EMFILE;
	if (chance_once_in(io_ring_mood.refuse))
		return -ENOMEM;
	ring->files = calloc(count, sizeof(ring->files[0]));
	ring->file_count = count;
	r = world_io_uring_register_files_update(uring, 0, fds, count);
	return r < 0 ? r : 0;
}

CALL(int, io_uring_unregister_files, struct io_uring *uring)
{
	struct io_ring *ring = io_ring_of(uring);

	if (!ring->files)
		return -ENXIO;
	io_ring_forget_files(ring);
	return 0;
}

/* ---- registered memory */

static int
io_ring_make_buffers(struct io_ring *ring, unsigned int count)
{
	if (ring->buffers)
		return -EBUSY;
	if (chance_once_in(io_ring_mood.refuse))
		return -ENOMEM;
	ring->buffers = calloc(count, sizeof(ring->buffers[0]));
	ring->buffer_count = count;
	return 0;
}

static void
io_ring_set_buffer(struct io_ring *ring, unsigned int place, const struct iovec *iov, uint64_t tag)
{
	struct io_buffer *before = ring->buffers[place];

	ring->buffers[place] = NULL;
	if (before)
		io_buffer_put(ring, before);
	if (!iov->iov_base)
		return;
	ring->buffers[place] = calloc(1, sizeof(struct io_buffer));
	*ring->buffers[place] = (struct io_buffer){iov->iov_base, iov->iov_len, tag, 1};
}

CALL(int, io_uring_register_buffers, struct io_uring *uring, const struct iovec *iov,
     unsigned int count)
{
	struct io_ring *ring = io_ring_of(uring);
	const int r = io_ring_make_buffers(ring, count);

	for (unsigned int i = 0; r == 0 && i < count; i++)
		io_ring_set_buffer(ring, i, &iov[i], 0);
	return r;
}

CALL(int, io_uring_register_buffers_sparse, struct io_uring *uring, unsigned int count)
{
	return io_ring_mood.old_memory ? -EINVAL : io_ring_make_buffers(io_ring_of(uring), count);
}

CALL(int, io_uring_register_buffers_tags, struct io_uring *uring, const struct iovec *iov,
     const __u64 *tags, unsigned int count)
{
	(void)iov;
	(void)tags;
	return io_ring_make_buffers(io_ring_of(uring), count);
}

CALL(int, io_uring_register_buffers_update_tag, struct io_uring *uring, unsigned int first,
     const struct iovec *iov, const __u64 *tags, unsigned int count)
{
	struct io_ring *ring = io_ring_of(uring);

	if (first + count > ring->buffer_count)
		return -EINVAL;
	for (unsigned int i = 0; i < count; i++) {
		if (iov[i].iov_base && chance_once_in(io_ring_mood.refuse))
			return i ? (int)i : -ENOMEM;
		io_ring_set_buffer(ring, first + i, &iov[i], tags[i]);
	}
	return (int)count;
}

/* ---- others */

CALL(int, io_uring_register_eventfd, struct io_uring *uring, int fd)
{
	struct io_ring *ring = io_ring_of(uring);

	ring->event = descriptor_find(fd, NULL);
	if (!ring->event)
		return -EBADF;
	ring->event->users++;
	return 0;
}
