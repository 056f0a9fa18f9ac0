/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * io_uring: one system call hands all queued chunks to the kernel and waits for completions.
 */
#include "engine/backend/uring.h"

#include "engine/backend/choice.h"
#include "engine/io/chunk.h"
#include "engine/io/image_state.h"
#include "engine/io/io.h"
#include "engine/io/ioctx_state.h"

#include "common/locked_memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

/* The kernel charges the memory of a server's rings to its user until some time after the server's
 * end (RLIMIT_MEMLOCK). A server that was just restarted waits that long. */
#define PROBE_TRIES   50
#define PROBE_STEP_MS 20

int
uring_try_submission(struct io_uring *uring)
{
	struct io_uring_cqe *cqe;
	unsigned int tries = 0;
	int r;

	do {
		r = io_uring_submit_and_wait(uring, 1);
		if (r >= 0)
			r = io_uring_wait_cqe(uring, &cqe);
		if (r == -EAGAIN)
			usleep(PROBE_STEP_MS * 1000);
	} while (r == -EINTR || (r == -EAGAIN && ++tries < PROBE_TRIES));
	if (r < 0)
		return r;
	r = cqe->res;
	io_uring_cqe_seen(uring, cqe);
	return r;
}

/* Tests the operations that we use (Linux 5.6), and one submission, since a seccomp filter may
 * allow setting a ring up but not entering it. Returns 0 or -errno. */
static int
uring_try_ring(struct io_uring *uring)
{
	static const int needed[] = {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_FSYNC,
				     IORING_OP_FALLOCATE};
	struct io_uring_probe *probe = io_uring_get_probe_ring(uring);
	bool complete = probe != NULL;

	for (unsigned int i = 0; complete && i < sizeof(needed) / sizeof(needed[0]); i++)
		complete = io_uring_opcode_supported(probe, needed[i]);
	io_uring_free_probe(probe);
	if (!complete)
		return -ENOSYS;
	io_uring_prep_nop(io_uring_get_sqe(uring));
	return uring_try_submission(uring);
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
		r = uring_try_ring(&ring.uring);
		ring_fini(&ring);
	}
	if (r < 0) {
		/* ENOSYS and EPERM both occur in containers (seccomp), and EPERM also with
		 * kernel.io_uring_disabled. */
		snprintf(reason, REASON_MAX, "io_uring: %s", strerror(-r));
	}
	return r;
}

/* Indices of the registered files. */
enum {
	BUFFERED_FILE,
	DIRECT_FILE,
};

/* The value of .bounce_place before the first use. */
#define NOT_TRIED (REGISTERED_NOWHERE - 1)

/* One piece of memory in a table of one place, which every kernel can make. */
static int
uring_register_first(struct ring *ring, const struct ioctx *ctx, unsigned int chunks)
{
	const struct iovec iov = {ctx->arena, (size_t)chunks * CHUNK_SIZE};
	int r = io_uring_register_buffers(&ring->uring, &iov, 1);

	return r < 0 ? r : (int)chunks;
}

/* Returns how many chunks' buffers are registered now. */
static int
uring_register_arena(struct ring *ring, const struct ioctx *ctx)
{
	int r = locked_memory_is_plentiful() ? uring_register_first(ring, ctx, ctx->depth)
					     : -ENOMEM;

	if (r < 0)
		r = uring_register_first(ring, ctx, 1);
	if (r < 0)
		ring_memory_refused(ring, r);
	return r < 0 ? 0 : r;
}

int
uring_open(struct uring *uring, const struct ioctx *ctx, unsigned int flags)
{
	/* Each place needs a descriptor; without a direct one, the second place is not used. */
	const struct backing *backing = &ctx->image->backing;
	const int files[URING_FILES] = {
		[BUFFERED_FILE] = backing->fd,
		[DIRECT_FILE] = backing->direct_fd >= 0 ? backing->direct_fd : backing->fd,
	};
	int r = 0;

	uring->ring = ctx->host_ring ? ctx->host_ring : &uring->own;
	if (!ctx->host_ring)
		r = ring_init(&uring->own, ctx->depth, ctx->depth, flags, URING_FILES);
	if (r < 0)
		return r;
	uring->registered = ring_add_files(uring->ring, files, URING_FILES);
	uring->files = backing->layers ? -1 : uring->registered;
	return ctx->host_ring ? 0 : uring_register_arena(&uring->own, ctx);
}

void
uring_use(struct uring *uring, struct ioctx *ctx, unsigned int registered)
{
	for (unsigned int i = 0; i < ctx->depth; i++)
		ctx->chunks[i].bounce_place = i < registered ? 0 : REGISTERED_NOWHERE;
	for (unsigned int i = 0; ctx->host_ring && i < ctx->depth; i++)
		ctx->chunks[i].bounce_place = NOT_TRIED;
	ctx->unregistered = &uring->ring->unregistered;
}

void
uring_close(struct uring *uring, struct ioctx *ctx)
{
	for (unsigned int i = 0; ctx->host_ring && i < ctx->depth; i++)
		ring_remove_memory(uring->ring, ctx->chunks[i].bounce_place, CHUNK_SIZE);
	ring_remove_files(uring->ring, uring->registered, URING_FILES);
	if (uring->ring == &uring->own)
		ring_fini(&uring->own);
}

/* Not inline, so that it takes no instructions of chunks that are not bounced. */
static __attribute__((noinline)) int
place_of_bounce(struct uring *uring, struct chunk *chunk)
{
	if (chunk->bounce_place == NOT_TRIED)
		chunk->bounce_place = ring_add_memory(uring->ring, chunk->bounce, CHUNK_SIZE);
	return chunk->bounce_place;
}

static int
uring_place_of(struct uring *uring, const struct ioctx *ctx, struct chunk *chunk)
{
	if (chunk->bounced)
		return place_of_bounce(uring, chunk);
	/* Before Linux 6.18, the kernel checks registered memory page by page. It fails direct I/O
	 * with EINVAL if a page's end cuts a block, although the device takes such memory. */
	if (!ctx->host_ring ||
	    (chunk->direct && ((uintptr_t)chunk->buffer & (ctx->image->backing.direct_align - 1))))
		return REGISTERED_NOWHERE;
	return registered_place(chunk->io->registered, chunk->buffer, (size_t)chunk->length);
}

static void
uring_prepare_transfer(struct uring *uring, const struct ioctx *ctx, struct io_uring_sqe *sqe,
		       struct chunk *chunk)
{
	static const uint8_t plain[] = {
		[CHUNK_READ] = IORING_OP_READ,
		[CHUNK_WRITE] = IORING_OP_WRITE,
	};
	static const uint8_t fixed[] = {
		[CHUNK_READ] = IORING_OP_READ_FIXED,
		[CHUNK_WRITE] = IORING_OP_WRITE_FIXED,
	};
	int place = uring_place_of(uring, ctx, chunk);

	*sqe = (struct io_uring_sqe){
		.opcode = plain[chunk->op],
		.addr = (uintptr_t)chunk->buffer,
		.len = (uint32_t)chunk->length,
		.off = chunk->offset,
		.rw_flags = chunk->rw_flags,
	};
	if (place >= 0) {
		sqe->opcode = fixed[chunk->op];
		sqe->buf_index = (uint16_t)place;
		chunk->io->in_registered = true;
	}
	if (chunk_starts_write_back(chunk))
		sqe->flags = IOSQE_ASYNC;
}

/* Not inline either. */
static __attribute__((noinline)) void
prepare_other(struct io_uring_sqe *sqe, const struct chunk *chunk)
{
	if (chunk->op == CHUNK_SYNC)
		io_uring_prep_fsync(sqe, -1, IORING_FSYNC_DATASYNC);
	else
		io_uring_prep_fallocate(sqe, -1, chunk->mode, chunk->offset, chunk->length);
}

/* For a chunk in a ring without registered files, or of a layer. Not inline either. */
static __attribute__((noinline)) void
uring_set_file(const struct uring *uring, const struct ioctx *ctx, struct io_uring_sqe *sqe,
	       const struct chunk *chunk)
{
	if (uring->registered >= 0 && !chunk->below) {
		sqe->fd = uring->registered + (chunk->direct ? DIRECT_FILE : BUFFERED_FILE);
		sqe->flags |= IOSQE_FIXED_FILE;
	} else {
		sqe->fd = chunk_fd(&ctx->image->backing, chunk);
	}
}

void
uring_add(struct uring *uring, const struct ioctx *ctx, struct chunk *chunk)
{
	struct io_uring_sqe *sqe = ring_queue(uring->ring);

	if (chunk->op == CHUNK_READ || chunk->op == CHUNK_WRITE)
		uring_prepare_transfer(uring, ctx, sqe, chunk);
	else
		prepare_other(sqe, chunk);
	if (uring->files >= 0) {
		sqe->fd = uring->files + (chunk->direct ? DIRECT_FILE : BUFFERED_FILE);
		sqe->flags |= IOSQE_FIXED_FILE;
	} else {
		uring_set_file(uring, ctx, sqe, chunk);
	}
	chunk->completion.done = chunk_completed;
	io_uring_sqe_set_data(sqe, &chunk->completion);
}

static int
uring_init(struct ioctx *ctx)
{
	struct uring *uring = malloc(sizeof(*uring));
	int registered = uring ? uring_open(uring, ctx, 0) : -ENOMEM;
	int r = registered < 0 ? registered : 0;

	/* An event loop has no ring if the images that it served at its start had no use for one.
	 * Then the context's event reports the completions of the context's own ring, as with the
	 * other backends. That costs less than threads, and the loop can stay on epoll. */
	if (r == 0 && ctx->hosted && !ctx->host_ring)
		r = io_uring_register_eventfd(&uring->own.uring, ctx->inbox_event);
	if (r < 0) {
		if (registered >= 0)
			uring_close(uring, ctx);
		free(uring);
		return r;
	}
	uring_use(uring, ctx, (unsigned int)registered);
	ctx->backend_state = uring;
	return 0;
}

static void
uring_fini(struct ioctx *ctx)
{
	uring_close(ctx->backend_state, ctx);
	free(ctx->backend_state);
}

static void
uring_reserve(struct ioctx *ctx)
{
	for (unsigned int i = 0; ctx->host_ring && i < ctx->depth; i++)
		place_of_bounce(ctx->backend_state, &ctx->chunks[i]);
}

static void
uring_queue(struct ioctx *ctx, struct chunk *chunk)
{
	uring_add(ctx->backend_state, ctx, chunk);
}

static int
uring_run_own_ring(struct ioctx *ctx, struct ring *ring, unsigned int min)
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

	return ctx->host_ring ? ring_submit(ctx->host_ring)
			      : uring_run_own_ring(ctx, &uring->own, min);
}

const struct backend backend_uring = {
	.name = "io_uring",
	.dsync = true,
	.shares_ring = true,
	.lone_by_call = true,
	.probe = uring_probe,
	.init = uring_init,
	.fini = uring_fini,
	.reserve = uring_reserve,
	.queue = uring_queue,
	.run = uring_run,
};
