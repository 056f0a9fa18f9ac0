/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One system call at a time, on the thread that runs the context: for machines that allow neither
 * io_uring nor AIO, where concurrency comes from the host's threads; and for images in memory,
 * where no call waits.  On an event loop, ioctx_run() bounds how much they move in one turn.
 */
#include "engine/backend/choice.h"

#include "engine/io/chunk.h"
#include "engine/io/image_state.h"
#include "engine/io/ioctx_state.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct threads {
	struct chunk *last; /* that was queued */
	struct backing
		backing; /* the image's, but for .fd and .direct_fd where the context has its own */
};

static int
threads_probe(const struct backing *backing, char reason[REASON_MAX])
{
	(void)backing;
	reason[0] = '\0';
	return 0;
}

/* The context's own, or else the image's. */
static int
own_fd(int fd)
{
	int own = backing_reopen(fd);

	return own >= 0 ? own : fd;
}

static void
close_own(int own, int fd)
{
	if (own != fd)
		close(own);
}

static int
threads_init(struct ioctx *ctx)
{
	const struct backing *backing = &ctx->image->backing;
	struct threads *threads = calloc(1, sizeof(*threads));

	if (!threads)
		return -ENOMEM;
	threads->backing = *backing;
	/* What a disk takes time for needs no such care. */
	if (backing->in_memory) {
		threads->backing.fd = own_fd(backing->fd);
		threads->backing.direct_fd = own_fd(backing->direct_fd);
	}
	ctx->backend_state = threads;
	return 0;
}

static void
threads_fini(struct ioctx *ctx)
{
	struct threads *threads = ctx->backend_state;

	close_own(threads->backing.fd, ctx->image->backing.fd);
	close_own(threads->backing.direct_fd, ctx->image->backing.direct_fd);
	free(threads);
}

static void
threads_queue(struct ioctx *ctx, struct chunk *chunk)
{
	struct threads *threads = ctx->backend_state;

	if (ctx->hosted) {
		/* In memory, too, it takes its time for many pages. */
		if (chunk->op == CHUNK_ALLOCATE) {
			chunk_lend(ctx, chunk);
			return;
		}
		ctx->turn -= (int64_t)chunk->length;
	}
	chunk->next = threads->last;
	threads->last = chunk;
}

static int
threads_run(struct ioctx *ctx, unsigned int min)
{
	struct threads *threads = ctx->backend_state;
	struct chunk *last = threads->last, *chunk = NULL;

	(void)min;
	threads->last = NULL;
	/* In the order in which they came: a large request goes through the file forwards. */
	while (last) {
		struct chunk *before = last->next;

		last->next = chunk;
		chunk = last;
		last = before;
	}
	while (chunk) {
		struct chunk *next = chunk->next;

		/* Last, since it may queue the chunk again. */
		chunk_done(ctx, chunk, chunk_execute(&threads->backing, chunk));
		chunk = next;
	}
	return 0;
}

const struct backend backend_calls = {
	.name = "threads",
	.serial = true,
	.dsync = true,
	.probe = threads_probe,
	.init = threads_init,
	.fini = threads_fini,
	.queue = threads_queue,
	.run = threads_run,
};
