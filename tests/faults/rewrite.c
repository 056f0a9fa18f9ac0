/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD, with calls.c: the kernel's answers to a server go wrong now and then, as on real
 * machines. Transfers are short, fail, or take long; rings are those of an older kernel, or busy; a
 * thread stands still. tests/faults/run decides which faults happen and how often, in the file
 * FAULTS_SHARED, and reads there how often they happened.
 *
 * Requests on a ring are rewritten before they are submitted: a request that is to fail becomes a
 * NOP whose completion gets the error. Only what the kernel's interface allows is done, so every
 * failure of the server is its own fault.
 */
#include "tests/faults/shared.h"

#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Requests that became NOPs, and the results that their completions are to get. */
struct broken {
	struct io_uring *ring; /* NULL: free */
	uint64_t user_data;
	int result;
	struct __kernel_timespec later;
};

static struct broken broken[256];
static pthread_mutex_t broken_lock = PTHREAD_MUTEX_INITIALIZER;

/* Its completion comes at once, or later. */
static void
sqe_break(struct io_uring *ring, struct io_uring_sqe *sqe, int result, enum count which)
{
	pthread_mutex_lock(&broken_lock);
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		struct broken *b = &broken[i];

		if (b->ring)
			continue;
		*b = (struct broken){.ring = ring, .user_data = sqe->user_data, .result = result};
		memset(sqe, 0, sizeof(*sqe));
		sqe->opcode = IORING_OP_NOP;
		if (draw() % 3 == 0) {
			b->later.tv_nsec = (long)(draw() % (draw() % 4 ? 60000000 : 900000000));
			sqe->opcode = IORING_OP_TIMEOUT;
			sqe->addr = (uintptr_t)&b->later;
			sqe->len = 1;
		}
		sqe->user_data = b->user_data;
		count(which);
		break;
	}
	pthread_mutex_unlock(&broken_lock);
}

static void
transfer_rewrite(struct io_uring *ring, struct io_uring_sqe *sqe, bool write)
{
	switch (draw() % 4) {
	case 0:
		/* Only whole blocks, as at the end of a short direct transfer. */
		if (sqe->len > 4096) {
			sqe->len = 4096 * (1 + (uint32_t)(draw() % (sqe->len / 4096)));
			count(SHORT);
		}
		return;
	case 1:
		if (write)
			sqe_break(ring, sqe, 0, NOTHING);
		return;
	default:
		sqe_break(ring, sqe,
			  write ? -ONE_OF(EIO, ENOSPC, EAGAIN, EINTR) : -ONE_OF(EIO, EAGAIN, EINTR),
			  ERRORS);
	}
}

static void
sqe_rewrite(struct io_uring *ring, struct io_uring_sqe *sqe)
{
	switch (sqe->opcode) {
	case IORING_OP_READ:
	case IORING_OP_READ_FIXED:
		if (now(REWRITE, 1))
			transfer_rewrite(ring, sqe, false);
		return;
	case IORING_OP_WRITE:
	case IORING_OP_WRITE_FIXED:
		if (now(REWRITE, 1))
			transfer_rewrite(ring, sqe, true);
		return;
	case IORING_OP_READV:
	case IORING_OP_WRITEV:
	case IORING_OP_FALLOCATE:
		if (now(REWRITE, 1))
			sqe_break(ring, sqe, -ONE_OF(EIO, ENOSPC, EINTR), ERRORS);
		return;
	case IORING_OP_FSYNC:
		if (now(SYNC, 1))
			sqe_break(ring, sqe, -EIO, SYNC_ERRORS);
		return;
	case IORING_OP_POLL_ADD:
		if (now(EVENTS, 1))
			sqe_break(ring, sqe, -ENOMEM, NO_EVENTS);
		return;
	case IORING_OP_RECV:
		if (now(SOCKETS, 20))
			sqe_break(ring, sqe, -ONE_OF(EINTR, ENOMEM, ENOBUFS), RECEIVE);
		return;
	case IORING_OP_SENDMSG:
		if (now(SOCKETS, 20))
			sqe_break(ring, sqe, -ONE_OF(EINTR, ENOMEM, ENOBUFS), SEND);
		return;
	default: return;
	}
}

/* How much of the queue was rewritten: the kernel may take it in several calls. */
static struct seen {
	struct io_uring *ring;
	unsigned int tail;
	bool busy;
	unsigned int taken; /* number of completions taken when the ring became busy */
} seen[64];

static struct seen *
seen_of(struct io_uring *ring)
{
	size_t i = 0;

	pthread_mutex_lock(&broken_lock);
	while (i < 63 && seen[i].ring && seen[i].ring != ring)
		i++;
	if (!seen[i].ring)
		seen[i].tail = ring->sq.sqe_head;
	seen[i].ring = ring;
	pthread_mutex_unlock(&broken_lock);
	return &seen[i];
}

static void
queue_rewrite(struct io_uring *ring)
{
	struct seen *of = seen_of(ring);

	if ((int)(of->tail - ring->sq.sqe_head) < 0)
		of->tail = ring->sq.sqe_head;
	for (; of->tail != ring->sq.sqe_tail; of->tail++)
		sqe_rewrite(ring, &ring->sq.sqes[of->tail & ring->sq.ring_mask]);
}

/* A kernel whose completion queue has overflowed takes no requests until some completions were
 * taken. */
static bool
is_busy(struct io_uring *ring)
{
	struct seen *of = seen_of(ring);

	if (of->busy && of->taken == *ring->cq.khead)
		return true;
	of->busy = io_uring_cq_ready(ring) > 0 && now(BUSY, 1);
	if (of->busy)
		count(BUSY_RINGS);
	of->taken = *ring->cq.khead;
	return of->busy;
}

static void
completions_rewrite(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	unsigned int head;

	pthread_mutex_lock(&broken_lock);
	io_uring_for_each_cqe(ring, head, cqe)
	{
		for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
			if (broken[i].ring != ring || broken[i].user_data != cqe->user_data)
				continue;
			/* A cancelled request keeps its own result. */
			if (cqe->res == 0 || cqe->res == -ETIME)
				cqe->res = broken[i].result;
			broken[i].ring = NULL;
			break;
		}
	}
	pthread_mutex_unlock(&broken_lock);
}

#define AROUND(ring, call)                                                                         \
	do {                                                                                       \
		int result_;                                                                       \
                                                                                                   \
		stall();                                                                           \
		queue_rewrite(ring);                                                               \
		result_ = (call);                                                                  \
		completions_rewrite(ring);                                                         \
		stall();                                                                           \
		return result_;                                                                    \
	} while (0)

static bool
submit_fails(struct io_uring *ring, int *error)
{
	if (is_busy(ring)) {
		*error = -EBUSY;
		return true;
	}
	if (!now(REWRITE, 20))
		return false;
	count(SUBMIT);
	*error = -ONE_OF(EAGAIN, EBUSY, EINTR);
	return true;
}

int
io_uring_submit(struct io_uring *ring)
{
	int error;

	if (submit_fails(ring, &error))
		return error;
	AROUND(ring, NEXT(io_uring_submit)(ring));
}

int
io_uring_submit_and_wait(struct io_uring *ring, unsigned int n)
{
	int error;

	if (submit_fails(ring, &error))
		return error;
	AROUND(ring, NEXT(io_uring_submit_and_wait)(ring, n));
}

int
io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned int n,
				 struct __kernel_timespec *time, sigset_t *mask)
{
	AROUND(ring, NEXT(io_uring_submit_and_wait_timeout)(ring, cqe, n, time, mask));
}

int
io_uring_submit_and_get_events(struct io_uring *ring)
{
	AROUND(ring, NEXT(io_uring_submit_and_get_events)(ring));
}

int
io_uring_get_events(struct io_uring *ring)
{
	AROUND(ring, NEXT(io_uring_get_events)(ring));
}

/* ---- Older kernels */

/* A ring for which there is too little locked memory, though there was enough for another. */
#define LARGE_RING 64

static bool
denied(uint32_t which)
{
	if (!(shared->what & OLD_RING) || !(shared->ring_denies & which))
		return false;
	count(DENIED);
	return true;
}

int
io_uring_queue_init_params(unsigned int entries, struct io_uring *ring,
			   struct io_uring_params *params)
{
	int r;

	if (denied(DENY_RINGS) || (entries >= LARGE_RING && denied(DENY_LARGE_RINGS)))
		return -ENOMEM;
	if (shared->what & OLD_RING && params->flags & shared->ring_flags) {
		count(DENIED);
		return -EINVAL;
	}
	if (shared->ring_entries && entries > shared->ring_entries)
		entries = shared->ring_entries;
	r = NEXT(io_uring_queue_init_params)(entries, ring, params);
	if (r == 0 && ring->features & IORING_FEAT_EXT_ARG && denied(DENY_EXT_ARG))
		ring->features &= ~IORING_FEAT_EXT_ARG;
	return r;
}

void
io_uring_queue_exit(struct io_uring *ring)
{
	pthread_mutex_lock(&broken_lock);
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
		if (broken[i].ring == ring)
			broken[i].ring = NULL;
	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
		if (seen[i].ring == ring) {
			/* The next ring at this address starts anew. */
			seen[i].tail = ring->sq.sqe_head - (1U << 30);
			seen[i].busy = false;
		}
	pthread_mutex_unlock(&broken_lock);
	NEXT(io_uring_queue_exit)(ring);
}

int
io_uring_register_files(struct io_uring *ring, const int *files, unsigned int number)
{
	return denied(DENY_FILES) ? -EINVAL : NEXT(io_uring_register_files)(ring, files, number);
}

int
io_uring_register_buffers(struct io_uring *ring, const struct iovec *buffers, unsigned int number)
{
	return denied(DENY_BUFFERS) ? -ENOMEM
				    : NEXT(io_uring_register_buffers)(ring, buffers, number);
}
