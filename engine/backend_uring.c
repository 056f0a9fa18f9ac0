/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * io_uring: everything queued goes to the kernel, and completions are waited for, in one system call.
 */
#include "engine/backend.h"

#include "engine/image_state.h"
#include "engine/ioctx.h"
#include "engine/ring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The memory of a server's rings is counted for its user until a while after its end (RLIMIT_MEMLOCK):
 * who restarts one waits that long. */
#define PROBE_TRIES 50
#define PROBE_STEP_MS 20

/* What we use, Linux 5.6 has; and a seccomp filter may allow setting a ring up and not entering it. */
static int
try_ring(struct io_uring *uring)
{
	static const int needed[] = {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_FSYNC, IORING_OP_FALLOCATE};
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
	int r = ring_init(&ring, backing, 1, 0);

	for (int i = 0; r == -ENOMEM && i < PROBE_TRIES; i++) {
		usleep(PROBE_STEP_MS * 1000);
		r = ring_init(&ring, backing, 1, 0);
	}
	if (r == 0) {
		r = try_ring(&ring.uring);
		ring_fini(&ring);
	}
	if (r < 0) {
		/* ENOSYS and EPERM both occur in containers (seccomp), EPERM by kernel.io_uring_disabled. */
		snprintf(reason, REASON_MAX, "io_uring: %s", strerror(-r));
	}
	return r;
}

static int
uring_init(struct ioctx *ctx)
{
	struct ring *ring = malloc(sizeof(*ring));
	int r;

	if (!ring)
		return -ENOMEM;
	r = ring_init(ring, &ctx->image->backing, ctx->depth, 0);
	if (r < 0) {
		free(ring);
		return r;
	}
	ctx->registered = ring_register_arena(ring, ctx);
	ctx->backend_state = ring;
	return 0;
}

static void
uring_fini(struct ioctx *ctx)
{
	ring_fini(ctx->backend_state);
	free(ctx->backend_state);
}

static void
uring_queue(struct ioctx *ctx, struct chunk *chunk)
{
	ring_queue(ctx->backend_state, &ctx->image->backing, chunk);
}

static int
uring_run(struct ioctx *ctx, unsigned int min)
{
	return ring_run(ctx->backend_state, ctx, min);
}

const struct backend backend_uring = {
	.name = "io_uring",
	.dsync = true,
	.lone_by_call = true,
	.probe = uring_probe,
	.init = uring_init,
	.fini = uring_fini,
	.queue = uring_queue,
	.run = uring_run,
};
