/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event loop on io_uring: a turn is one system call.
 */
#include "server/loop/loop_backend.h"

#include "common/container_of.h"
#include "engine/backend/ring.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

/* Operations that can be queued between two submissions; more only cost one more submission. */
#define ENTRIES 1024
/* Operations in flight: two for each connection, and those of the images' contexts. Completions
 * beyond this number wait in the kernel, which costs time. */
#define IN_FLIGHT 16384

static int
uring_loop_init(struct loop *loop, bool spins)
{
	/* Since Linux 6.1, the kernel's work for completions is done only when the thread waits for
	 * them, and does not interrupt it. Before, the ring has ring_init()'s flags alone. */
	const unsigned int flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
				   (spins ? IORING_SETUP_TASKRUN_FLAG : 0);
	struct ring *ring = malloc(sizeof(*ring));
	int r = ring ? ring_init(ring, ENTRIES, IN_FLIGHT, flags, RING_FILES) : -ENOMEM;

	if (r == -EINVAL)
		r = ring_init(ring, ENTRIES, IN_FLIGHT, 0, RING_FILES);
	if (r < 0) {
		free(ring);
		return r;
	}
	ring_offer_memory(ring);
	loop->ring = ring;
	/* Before Linux 6.1, a send that the socket takes in part may fail as if it had taken
	 * nothing. */
	loop->is_quiet = ring->uring.flags & IORING_SETUP_DEFER_TASKRUN &&
			 ring->uring.features & IORING_FEAT_CQE_SKIP;
	return 0;
}

static void
uring_loop_fini(struct loop *loop)
{
	/* The cancellations themselves may still be in flight. */
	while (loop->ring->in_flight > 0 && ring_run(loop->ring, 1) == 0)
		;
	ring_fini(loop->ring);
	free(loop->ring);
}

/* ---- quiet sends
 *
 * The kernel tries a send when it takes its SQE. With MSG_DONTWAIT, the result is there after that,
 * and with IOSQE_CQE_SKIP_SUCCESS, no completion tells that all was sent: so the wait that follows
 * in the same system call goes on. Whatever the socket does not take at once is told.
 */

static void
uring_unlist_quiet(struct loop *loop, const struct loop_op *op)
{
	struct loop_op **link = &loop->quiet;

	while (*link && *link != op)
		link = &(*link)->next;
	if (*link)
		*link = op->next;
}

static void
uring_quiet_failed(struct completion *completion, int result)
{
	struct loop_op *op = container_of(completion, struct loop_op, failed);

	uring_unlist_quiet(op->loop, op);
	op->completion.done(&op->completion, result);
}

static void
uring_prepare_quiet(struct loop *loop, struct loop_op *op, struct io_uring_sqe *sqe)
{
	io_uring_prep_sendmsg(sqe, op->fd, op->message, MSG_NOSIGNAL | MSG_WAITALL | MSG_DONTWAIT);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	op->failed.done = uring_quiet_failed;
	op->loop = loop;
	op->next = loop->quiet;
	loop->quiet = op;
}

/* Completes the quiet sends that the kernel was silent about. It comes before other completions, so
 * that the buffers of replies are free for new requests. */
static void
uring_end_quiet(struct loop *loop)
{
	struct io_uring *uring = &loop->ring->uring;
	struct io_uring_cqe *cqe;
	unsigned int head;

	/* If not, the next turn does it. */
	if (!ring_tells_all(loop->ring))
		return;
	io_uring_for_each_cqe(uring, head, cqe)
	{
		struct completion *completion = ring_completion(cqe);

		if (completion && completion->done == uring_quiet_failed)
			uring_unlist_quiet(loop, container_of(completion, struct loop_op, failed));
	}
	while (loop->quiet) {
		struct loop_op *op = loop->quiet;

		loop->quiet = op->next;
		loop->ring->in_flight--;
		op->completion.done(&op->completion, (int)op->length);
	}
}

/* ---- */

static void
uring_start(struct loop *loop, struct loop_op *op, bool all)
{
	struct io_uring_sqe *sqe = ring_queue(loop->ring);

	switch (op->kind) {
	case LOOP_RECV:
		io_uring_prep_recv(sqe, op->fd, op->buffer, op->length,
				   all && !op->partly ? MSG_WAITALL : 0);
		break;
	case LOOP_SEND:
		io_uring_prep_sendmsg(sqe, op->fd, op->message,
				      op->partly ? MSG_NOSIGNAL : MSG_NOSIGNAL | MSG_WAITALL);
		break;
	case LOOP_SEND_QUIETLY: uring_prepare_quiet(loop, op, sqe); break;
	case LOOP_POLL: io_uring_prep_poll_add(sqe, op->fd, POLLIN); break;
	}
	io_uring_sqe_set_data(sqe, op->kind == LOOP_SEND_QUIETLY ? &op->failed : &op->completion);
}

static void
uring_cancelled(struct completion *completion, int result)
{
	(void)completion;
	(void)result;
}

static void
uring_cancel(struct loop *loop, struct loop_op *op)
{
	static struct completion nobody = {.done = uring_cancelled};
	struct io_uring_sqe *sqe = ring_queue(loop->ring);

	io_uring_prep_cancel(sqe, &op->completion, 0);
	io_uring_sqe_set_data(sqe, &nobody);
}

static bool
uring_has_result(struct loop *loop, const struct loop_op *op, int *result)
{
	return ring_has_result(loop->ring, &op->completion, result);
}

/* An operation that is submitted between two turns may complete at once; its completion is called
 * in the next turn. */
static bool
uring_waits(struct loop *loop, const struct loop_op *op)
{
	int result;

	return !uring_has_result(loop, op, &result);
}

static int
uring_turn(struct loop *loop, int timeout_ms)
{
	int r = ring_enter_for(loop->ring, timeout_ms);

	if (loop->quiet)
		uring_end_quiet(loop);
	ring_complete_all(loop->ring);
	return r;
}

static void
uring_submit(struct loop *loop)
{
	/* An error will occur again in the turn. */
	ring_submit(loop->ring);
}

static bool
uring_is_ready(struct loop *loop)
{
	return ring_is_ready(loop->ring);
}

const struct loop_backend loop_backend_uring = {
	.init = uring_loop_init,
	.fini = uring_loop_fini,
	.start = uring_start,
	.cancel = uring_cancel,
	.waits = uring_waits,
	.has_result = uring_has_result,
	.turn = uring_turn,
	.submit = uring_submit,
	.is_ready = uring_is_ready,
};
