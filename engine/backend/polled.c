/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * io_uring with polled completion: no interrupt, and no sleep while a request is in flight.
 *
 * A polled ring takes only direct reads and writes, so a second, plain ring takes everything else:
 * syncs, allocations, and all chunks while direct I/O is switched off.
 */
#include "engine/backend/choice.h"
#include "engine/backend/restriction.h"

#include "engine/backend/uring.h"
#include "engine/io/chunk.h"
#include "engine/io/image_state.h"
#include "engine/io/ioctx_state.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rings {
	struct uring polled;
	struct uring plain;
};

/* Tests polling by one read. Setting a ring up and submitting to it succeed on any device; only a
 * completed read shows that the device can be polled. Returns 0 or -errno. */
static int
polled_read(const struct backing *backing)
{
	void *CLEANUP_FREE buffer = NULL;
	unsigned int align = backing->direct_align;
	struct io_uring_params params = {.flags = IORING_SETUP_IOPOLL};
	struct io_uring uring;
	struct io_uring_sqe *sqe;
	off_t data;
	int r;

	if (posix_memalign(&buffer, align > 4096 ? align : 4096, align) != 0)
		return -ENOMEM;
	/* The file system reads a hole without asking the device, so we read data. */
	data = lseek(backing->fd, 0, SEEK_DATA);
	data = data < 0 ? 0 : data / align * align;
	r = restricted_uring_init(1, &uring, &params);
	if (r < 0)
		return r;
	sqe = io_uring_get_sqe(&uring);
	io_uring_prep_read(sqe, backing->direct_fd, buffer, align, (uint64_t)data);
	r = uring_try_submission(&uring);
	io_uring_queue_exit(&uring);
	return r < 0 ? r : 0;
}

static int
polled_probe(const struct backing *backing, char reason[REASON_MAX])
{
	uint64_t polls, suspended;
	int r;

	if (backing->direct_fd < 0) {
		snprintf(reason, REASON_MAX, "it needs direct I/O: %.*s", REASON_MAX - 32,
			 backing->direct_reason);
		return -EOPNOTSUPP;
	}
	/* Older kernels use interrupts, without an error, on a device without poll queues, so we
	 * look for the queues before the read. */
	if (backing_queue_read(backing, "io_poll", &polls) == 0 && polls == 0) {
		snprintf(reason, REASON_MAX, "the device has no poll queues");
		return -EOPNOTSUPP;
	}
	/* Polling device-mapper crashes Linux 6.12, in dm_poll_bio(). */
	if (backing_queue_read(backing, "../dm/suspended", &suspended) == 0) {
		snprintf(reason, REASON_MAX, "device-mapper can't be polled reliably");
		return -EOPNOTSUPP;
	}
	r = polled_read(backing);
	if (r == -EOPNOTSUPP)
		snprintf(reason, REASON_MAX, "the device or its file system can't be polled");
	else if (r < 0)
		snprintf(reason, REASON_MAX, "a polled read failed: %s", strerror(-r));
	return r;
}

static int
polled_init(struct ioctx *ctx)
{
	struct rings *rings = malloc(sizeof(*rings));
	int polled = rings ? uring_open(&rings->polled, ctx, IORING_SETUP_IOPOLL) : -ENOMEM;
	int plain = polled < 0 ? polled : uring_open(&rings->plain, ctx, 0);

	if (plain < 0) {
		if (polled >= 0)
			uring_close(&rings->polled, ctx);
		free(rings);
		return plain;
	}
	uring_use(&rings->plain, ctx, (unsigned int)(plain < polled ? plain : polled));
	ctx->backend_state = rings;
	return 0;
}

static void
polled_fini(struct ioctx *ctx)
{
	struct rings *rings = ctx->backend_state;

	uring_close(&rings->polled, ctx);
	uring_close(&rings->plain, ctx);
	free(rings);
}

/*
 * Writes to a file are not polled. From Linux 6.6 on, file systems use interrupts for them anyway.
 * Before that, some file systems wait for the write themselves (ext4 does if the memory or the
 * range is not aligned to its own blocks); nobody polls meanwhile, so the write completes only when
 * the drive's time limit of 30 seconds expires.
 */
static void
polled_queue(struct ioctx *ctx, struct chunk *chunk)
{
	struct rings *rings = ctx->backend_state;
	const bool polled =
		chunk->direct && (chunk->op == CHUNK_READ ||
				  (chunk->op == CHUNK_WRITE && ctx->image->backing.block_device));

	uring_add(polled ? &rings->polled : &rings->plain, ctx, chunk);
}

/* Waits on one ring only if the other one has nothing in flight. If both are busy, the polled ring
 * is asked again and again, as polling does anyway. */
static int
polled_run(struct ioctx *ctx, unsigned int min)
{
	struct rings *rings = ctx->backend_state;
	struct ring *polled = &rings->polled.own, *plain = &rings->plain.own;
	unsigned int queued;
	int r;

	do {
		queued = ctx->queued;
		if (plain->in_flight) {
			r = ring_run(plain, polled->in_flight ? 0 : min);
			if (r < 0)
				return r;
		}
		if (polled->in_flight) {
			r = ring_run(polled, plain->in_flight ? 0 : min);
			if (r < 0)
				return r;
		}
	} while (min && ctx->queued >= queued && polled->in_flight && plain->in_flight);
	return 0;
}

const struct backend backend_polled = {
	.name = "io_uring",
	.polled = true,
	/* A polled ring can't wait for the sync of an RWF_DSYNC write. */
	.dsync = false,
	.probe = polled_probe,
	.init = polled_init,
	.fini = polled_fini,
	.queue = polled_queue,
	.run = polled_run,
};
