/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Linux kernel AIO, through its raw system calls, for machines that forbid io_uring.
 *
 * io_submit() waits for whatever a file system waits for: locks, its journal, or the disk for data
 * in the page cache. An event loop must not wait, so its context asks for no waiting (RWF_NOWAIT),
 * and its helpers execute the chunks that would wait.
 */
#include "engine/backend/choice.h"

#include "engine/io/chunk.h"
#include "engine/io/image_state.h"
#include "engine/io/ioctx_state.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct aio {
	aio_context_t context;
	unsigned int queued;    /* number of iocbs in list[] */
	unsigned int in_flight; /* number of chunks that the kernel has */
	struct chunk *inline_;  /* list of chunks that AIO can't do; aio_submit() executes them */
	bool waits[2][2]; /* hosted: the file can't tell if it would wait; index [direct][write] */
	struct iocb **list;      /* array of depth: iocbs to submit */
	struct iocb *iocbs;      /* array of depth: one per chunk */
	struct io_event *events; /* array of depth */
};

static int
aio_probe(const struct backing *backing, char reason[REASON_MAX])
{
	aio_context_t context = 0;
	int err = syscall(SYS_io_setup, 1, &context) < 0 ? -errno : 0;

	(void)backing;
	/* A seccomp filter may allow io_setup() and forbid io_submit(). */
	if (err == 0) {
		err = syscall(SYS_io_submit, context, 0, NULL) < 0 ? -errno : 0;
		syscall(SYS_io_destroy, context);
	}
	if (err < 0)
		snprintf(reason, REASON_MAX, "aio: %s%s", strerror(-err),
			 err == -EAGAIN ? " (see /proc/sys/fs/aio-max-nr)" : "");
	return err;
}

static void
aio_free(struct aio *aio)
{
	free(aio->events);
	free(aio->iocbs);
	free(aio->list);
	free(aio);
}

static int
aio_init(struct ioctx *ctx)
{
	struct aio *aio = calloc(1, sizeof(*aio));

	if (!aio)
		return -ENOMEM;
	aio->list = calloc(ctx->depth, sizeof(*aio->list));
	aio->iocbs = calloc(ctx->depth, sizeof(*aio->iocbs));
	aio->events = calloc(ctx->depth, sizeof(*aio->events));
	if (!aio->list || !aio->iocbs || !aio->events) {
		aio_free(aio);
		return -ENOMEM;
	}
	if (syscall(SYS_io_setup, ctx->depth, &aio->context) < 0) {
		int err = -errno;

		aio_free(aio);
		return err;
	}
	ctx->backend_state = aio;
	return 0;
}

static void
aio_fini(struct ioctx *ctx)
{
	struct aio *aio = ctx->backend_state;

	syscall(SYS_io_destroy, aio->context);
	aio_free(aio);
}

/* Points to the flag that tells whether the kernel can't say, for chunks of this kind, that it
 * would have to wait. */
static bool *
aio_waits(struct aio *aio, const struct chunk *chunk)
{
	return &aio->waits[chunk->direct][chunk->op == CHUNK_WRITE];
}

static bool
aio_is_transfer(const struct chunk *chunk)
{
	return chunk->op == CHUNK_READ || chunk->op == CHUNK_WRITE;
}

static void
aio_queue(struct ioctx *ctx, struct chunk *chunk)
{
	struct aio *aio = ctx->backend_state;
	const struct backing *backing = &ctx->image->backing;
	struct iocb *iocb = &aio->iocbs[chunk - ctx->chunks];
	const bool transfer = aio_is_transfer(chunk);

	if (ctx->hosted && (chunk->op == CHUNK_ALLOCATE || chunk_starts_write_back(chunk) ||
			    (transfer && *aio_waits(aio, chunk)))) {
		chunk_lend(ctx, chunk);
		return;
	}
	if (chunk->op == CHUNK_ALLOCATE) {
		chunk->next = aio->inline_;
		aio->inline_ = chunk;
		return;
	}
	*iocb = (struct iocb){
		.aio_data = (uintptr_t)chunk,
		.aio_fildes = (uint32_t)(chunk->direct ? backing->direct_fd : backing->fd),
		.aio_buf = (uintptr_t)chunk->buffer,
		.aio_nbytes = chunk->length,
		.aio_offset = (int64_t)chunk->offset,
		.aio_rw_flags = transfer ? chunk->rw_flags | (ctx->hosted ? RWF_NOWAIT : 0) : 0,
		.aio_flags = ctx->hosted ? IOCB_FLAG_RESFD : 0,
		.aio_resfd = (uint32_t)ctx->inbox_event,
	};
	if (chunk->op == CHUNK_SYNC)
		iocb->aio_lio_opcode = IOCB_CMD_FDSYNC; /* Linux 4.18 */
	else
		iocb->aio_lio_opcode = chunk->op == CHUNK_READ ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE;
	aio->list[aio->queued++] = iocb;
}

/* For layers: the bytes may be in a file below. */
static void
aio_queue_layered(struct ioctx *ctx, struct chunk *chunk)
{
	struct aio *aio = ctx->backend_state;
	const unsigned int queued = aio->queued;

	aio_queue(ctx, chunk);
	if (aio->queued > queued)
		aio->list[queued]->aio_fildes = (uint32_t)chunk_fd(&ctx->image->backing, chunk);
}

/* The kernel refused the first iocb of the list, with `err` (errno), for a reason that concerns
 * only that one: executes its chunk without AIO. */
static void
aio_execute_first(struct ioctx *ctx, struct aio *aio, int err)
{
	struct chunk *chunk = (struct chunk *)(uintptr_t)aio->list[0]->aio_data;

	aio->queued--;
	memmove(&aio->list[0], &aio->list[1], aio->queued * sizeof(aio->list[0]));
	if (!ctx->hosted) {
		chunk_done(ctx, chunk, chunk_execute(&ctx->image->backing, chunk));
		return;
	}
	if (err == EOPNOTSUPP && aio_is_transfer(chunk))
		*aio_waits(aio, chunk) = true;
	chunk_lend(ctx, chunk);
}

/* The kernel has completed the chunk, or (hosted) would have had to wait for it. Some file systems
 * report only here that they can't tell: ext4 does for writes into the page cache. */
static void
aio_transferred(struct ioctx *ctx, struct aio *aio, struct chunk *chunk, int result)
{
	bool refused = ctx->hosted && aio_is_transfer(chunk) &&
		       (result == -EAGAIN || result == -EOPNOTSUPP);

	if (!refused) {
		chunk_done(ctx, chunk, result);
		return;
	}
	if (result == -EOPNOTSUPP)
		*aio_waits(aio, chunk) = true;
	chunk_lend(ctx, chunk);
}

/* Submits all queued chunks. Returns how many of them need no waiting in io_getevents(): they were
 * executed or handed to a helper. */
static unsigned int
aio_submit(struct ioctx *ctx, struct aio *aio)
{
	unsigned int completed = 0;

	while (aio->inline_) {
		struct chunk *chunk = aio->inline_;

		aio->inline_ = chunk->next;
		chunk_done(ctx, chunk, chunk_execute(&ctx->image->backing, chunk));
		completed++;
	}
	while (aio->queued) {
		long n = syscall(SYS_io_submit, aio->context, (long)aio->queued, aio->list);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			aio_execute_first(ctx, aio, n < 0 ? errno : 0);
			completed++;
			continue;
		}
		aio->in_flight += (unsigned int)n;
		aio->queued -= (unsigned int)n;
		memmove(&aio->list[0], &aio->list[n], aio->queued * sizeof(aio->list[0]));
	}
	return completed;
}

static int
aio_run(struct ioctx *ctx, unsigned int min)
{
	struct aio *aio = ctx->backend_state;
	struct timespec now = {0};
	long n;

	if (aio_submit(ctx, aio) > 0)
		min = 0;
	if (aio->in_flight == 0)
		return 0;
	if (min > aio->in_flight)
		min = aio->in_flight;
	n = syscall(SYS_io_getevents, aio->context, (long)min, (long)ctx->depth, aio->events,
		    min ? NULL : &now);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (long i = 0; i < n; i++) {
		aio->in_flight--;
		aio_transferred(ctx, aio, (struct chunk *)(uintptr_t)aio->events[i].data,
				(int)aio->events[i].res);
	}
	/* Submits chunks that chunk_done() has queued again. A thread that waits here will run the
	 * context again at once, but a host does so only after an event. */
	if (ctx->hosted)
		aio_submit(ctx, aio);
	return 0;
}

const struct backend backend_aio = {
	.name = "aio",
	.dsync = true,
	.lone_by_call = true,
	.probe = aio_probe,
	.init = aio_init,
	.fini = aio_fini,
	.queue = aio_queue,
	.run = aio_run,
};

const struct backend backend_aio_layered = {
	.name = "aio",
	.dsync = true,
	.lone_by_call = true,
	.probe = aio_probe,
	.init = aio_init,
	.fini = aio_fini,
	.queue = aio_queue_layered,
	.run = aio_run,
};
