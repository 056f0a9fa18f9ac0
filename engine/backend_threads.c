/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One system call at a time, on the thread that runs the context: for machines that allow neither io_uring
 * nor AIO, where concurrency comes from the host's threads; and for images in memory, where no call waits.
 */
#include "engine/backend.h"

#include "engine/image_state.h"
#include "engine/ioctx.h"

static int
threads_probe(const struct backing *backing, char reason[REASON_MAX])
{
	(void)backing;
	reason[0] = '\0';
	return 0;
}

static int
threads_init(struct ioctx *ctx)
{
	ctx->backend_state = NULL; /* the last queued chunk */
	return 0;
}

static void
threads_fini(struct ioctx *ctx)
{
	(void)ctx;
}

static void
threads_queue(struct ioctx *ctx, struct chunk *chunk)
{
	chunk->next = ctx->backend_state;
	ctx->backend_state = chunk;
}

static int
threads_run(struct ioctx *ctx, unsigned int min)
{
	struct chunk *last = ctx->backend_state, *chunk = NULL;

	(void)min;
	ctx->backend_state = NULL;
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
		chunk_done(ctx, chunk, chunk_execute(&ctx->image->backing, chunk));
		chunk = next;
	}
	return 0;
}

const struct backend backend_threads = {
	.name = "threads",
	.serial = true,
	.dsync = true,
	.probe = threads_probe,
	.init = threads_init,
	.fini = threads_fini,
	.queue = threads_queue,
	.run = threads_run,
};
