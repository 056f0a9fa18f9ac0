/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine `threads`: plain system calls, for machines that allow neither io_uring nor AIO.
 *
 * backend_calls makes them one at a time, on the thread that runs the context. Concurrency comes
 * from the program's own threads (nbdkit's). It is also for images in memory, where no call waits
 * for a disk; on an event loop, ioctx_run() then limits how many bytes one turn moves.
 * backend_threads lends each chunk to a helper thread of the event loop's context.
 */
#include "engine/backend/choice.h"

#include "engine/io/chunk.h"
#include "engine/io/image_state.h"
#include "engine/io/ioctx_state.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct calls {
	struct chunk *first, **last; /* queued chunks, oldest first */
	struct backing backing; /* the image's, but with .fd and .direct_fd of the context's own, if
				   it has them */
};

static int
calls_probe(const struct backing *backing, char reason[REASON_MAX])
{
	(void)backing;
	reason[0] = '\0';
	return 0;
}

/* Returns a descriptor of the context's own, or the image's if there can be none. */
static int
calls_own_fd(int fd)
{
	int own = backing_reopen(fd);

	return own >= 0 ? own : fd;
}

static void
calls_close_own(int own, int fd)
{
	if (own != fd)
		close(own);
}

static int
calls_init(struct ioctx *ctx)
{
	const struct backing *backing = &ctx->image->backing;
	struct calls *calls = calloc(1, sizeof(*calls));

	if (!calls)
		return -ENOMEM;
	calls->last = &calls->first;
	calls->backing = *backing;
	/* The context's own descriptors avoid a shared cache line (see backing_reopen()); next to
	 * the time that a disk takes, that would not matter. */
	if (backing->in_memory) {
		calls->backing.fd = calls_own_fd(backing->fd);
		calls->backing.direct_fd = calls_own_fd(backing->direct_fd);
	}
	ctx->backend_state = calls;
	return 0;
}

static void
calls_fini(struct ioctx *ctx)
{
	struct calls *calls = ctx->backend_state;

	calls_close_own(calls->backing.fd, ctx->image->backing.fd);
	calls_close_own(calls->backing.direct_fd, ctx->image->backing.direct_fd);
	free(calls);
}

static void
calls_queue(struct ioctx *ctx, struct chunk *chunk)
{
	struct calls *calls = ctx->backend_state;

	/* Even in memory, fallocate() of many pages takes long. */
	if (ctx->hosted && chunk->op == CHUNK_ALLOCATE) {
		chunk_lend(ctx, chunk);
		return;
	}
	if (ctx->hosted)
		ctx->turn -= (int64_t)chunk->length;
	chunk->next = NULL;
	*calls->last = chunk;
	calls->last = &chunk->next;
}

static int
calls_run(struct ioctx *ctx, unsigned int min)
{
	struct calls *calls = ctx->backend_state;
	struct chunk *chunk = calls->first, *next;

	(void)min;
	calls->first = NULL;
	calls->last = &calls->first;
	for (; chunk; chunk = next) {
		next = chunk->next;
		/* Comes last, because it may queue the chunk again. */
		chunk_done(ctx, chunk, chunk_execute(&calls->backing, chunk));
	}
	return 0;
}

const struct backend backend_calls = {
	.name = "threads",
	.serial = true,
	.dsync = true,
	.probe = calls_probe,
	.init = calls_init,
	.fini = calls_fini,
	.queue = calls_queue,
	.run = calls_run,
};

/* One thread must exist; others are started when there is work for them. */
static int
threads_init(struct ioctx *ctx)
{
	return helpers_reserve(&ctx->helpers, 1, false);
}

static void
threads_fini(struct ioctx *ctx)
{
	(void)ctx;
}

/* The helpers have all chunks already. */
static int
threads_run(struct ioctx *ctx, unsigned int min)
{
	(void)min; /* a host never waits here */
	helpers_collect(&ctx->helpers);
	return 0;
}

const struct backend backend_threads = {
	.name = "threads",
	.dsync = true,
	.init = threads_init,
	.fini = threads_fini,
	.queue = chunk_lend,
	.run = threads_run,
};
