/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * io_uring: one system call hands all queued chunks to the kernel and waits for completions.
 */
#include "engine/backend/choice.h"

#include "engine/backend/ring.h"
#include "engine/backend/ring_share.h"
#include "engine/io/chunk.h"
#include "engine/io/image_state.h"
#include "engine/io/ioctx_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The kernel charges the memory of a server's rings to its user until some time after the server's
 * end (RLIMIT_MEMLOCK). A server that was just restarted waits that long. */
#define PROBE_TRIES   50
#define PROBE_STEP_MS 20

/* Tests the operations that we use (Linux 5.6), and one submission, since a seccomp filter may
 * allow setting a ring up but not entering it. Returns 0 or -errno. */
static int
try_ring(struct io_uring *uring)
{
	static const int needed[] = {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_FSYNC,
				     IORING_OP_FALLOCATE};
	struct io_uring_probe *probe = io_uring_get_probe_ring(uring);
	bool complete = probe != NULL;
	struct io_uring_cqe *cqe;
	int r;

	for (unsigned int i = 0; complete && i < sizeof(needed) / sizeof(needed[0]); i++)
		complete = io_uring_opcode_supported(probe, needed[i]);
	io_uring_free_probe(probe);
	if (!complete)
		return -ENOSYS;
	io_uring_prep_nop(io_uring_get_sqe(uring));
	r = io_uring_submit_and_wait(uring, 1);
	if (r >= 0)
		r = io_uring_wait_cqe(uring, &cqe);
	if (r < 0)
		return r;
	io_uring_cqe_seen(uring, cqe);
	return 0;
}

static int
uring_probe(const struct backing *backing, char reason[REASON_MAX])
{
	struct ring ring;
	int r = ring_init(&ring, 1, 1, 0, 0);

	(void)backing;
	for (int i = 0; r == -ENOMEM && i < PROBE_TRIES; i++) {
		usleep(PROBE_STEP_MS * 1000);
		r = ring_init(&ring, 1, 1, 0, 0);
	}
	if (r == 0) {
		r = try_ring(&ring.uring);
		ring_fini(&ring);
	}
	if (r < 0) {
		/* ENOSYS and EPERM both occur in containers (seccomp), and EPERM also with
		 * kernel.io_uring_disabled. */
		snprintf(reason, REASON_MAX, "io_uring: %s", strerror(-r));
	}
	return r;
}

/* The share is one of the context's own ring, or of its host's ring; .own is then not used. */
struct uring {
	struct ring own;
	struct ring_share share;
};

/*
 * An event loop may have no ring, because the images that it served at its start had no use for
 * one. Then the context gets a ring of its own, whose completions are told by the context's event,
 * as with the other engines. That costs less than threads, and the loop can stay on epoll.
 */
static int
own_ring_init(struct ioctx *ctx, struct ring *ring)
{
	int r = ring_init(ring, ctx->depth, ctx->depth, 0, RING_SHARE_FILES);

	if (r < 0 || !ctx->hosted)
		return r;
	r = io_uring_register_eventfd(&ring->uring, ctx->inbox_event);
	if (r < 0)
		ring_fini(ring);
	return r;
}

static int
uring_init(struct ioctx *ctx)
{
	struct uring *uring = malloc(sizeof(*uring));
	int r;

	if (!uring)
		return -ENOMEM;
	if (ctx->host_ring) {
		ring_share_init(&uring->share, ctx->host_ring, &ctx->image->backing);
		ctx->backend_state = uring;
		return 0;
	}
	r = own_ring_init(ctx, &uring->own);
	if (r < 0) {
		free(uring);
		return r;
	}
	ring_share_init(&uring->share, &uring->own, &ctx->image->backing);
	ctx->registered = ring_share_register_arena(&uring->share, ctx);
	ctx->backend_state = uring;
	return 0;
}

static void
uring_fini(struct ioctx *ctx)
{
	struct uring *uring = ctx->backend_state;

	ring_share_fini(&uring->share);
	if (!ctx->host_ring)
		ring_fini(&uring->own);
	free(uring);
}

static void
uring_queue(struct ioctx *ctx, struct chunk *chunk)
{
	struct uring *uring = ctx->backend_state;

	ring_share_queue(&uring->share, &ctx->image->backing, chunk);
}

static int
run_own_ring(struct ioctx *ctx, struct ring *ring, unsigned int min)
{
	int r = ring_run(ring, min);

	/* Submits chunks that chunk_done() has queued again. A thread that waits here will run the
	 * context again at once, but a host does so only after an event. */
	if (r == 0 && ctx->hosted && io_uring_sq_ready(&ring->uring) > 0)
		r = ring_submit(ring);
	/* If the kernel has no resources for some chunks now, no completion will come to tell the
	 * host: wake it, so that it tries again. */
	if (ctx->hosted && io_uring_sq_ready(&ring->uring) > 0)
		eventfd_write(ctx->inbox_event, 1);
	return r;
}

/* A host waits on its ring itself, so only submit to it. */
static int
uring_run(struct ioctx *ctx, unsigned int min)
{
	struct uring *uring = ctx->backend_state;

	return ctx->host_ring ? ring_submit(ctx->host_ring) : run_own_ring(ctx, &uring->own, min);
}

const struct backend backend_uring = {
	.name = "io_uring",
	.dsync = true,
	.shares_ring = true,
	.lone_by_call = true,
	.probe = uring_probe,
	.init = uring_init,
	.fini = uring_fini,
	.queue = uring_queue,
	.run = uring_run,
};
