/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plain system calls, one at a time, on the thread that runs the context. For machines that allow
 * neither io_uring nor AIO, where concurrency comes from the program's own threads (nbdkit's), and
 * for images in memory, where no call waits for a disk. On an event loop, ioctx_run() limits how
 * many bytes one turn moves.
 */
#include "engine/backend/choice.h"

#include "engine/io/chunk.h"
#include "engine/io/image_state.h"
#include "engine/io/ioctx_state.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct threads {
	struct chunk *last;     /* queued last; .next leads to the chunk queued before it */
	struct backing backing; /* the image's, but with .fd and .direct_fd of the context's own, if
				   it has them */
};

static int
threads_probe(const struct backing *backing, char reason[REASON_MAX])
{
	(void)backing;
	reason[0] = '\0';
	return 0;
}

/* Returns a descriptor of the context's own, or the image's if there can be none. */
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
	/* The context's own descriptors avoid a shared cache line (see backing_reopen()); next to
	 * the time that a disk takes, that would not matter. */
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
		/* Even in memory, fallocate() of many pages takes long. */
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
	/* Executes the chunks in the order in which they were queued, so that a large request goes
	 * forward through the file. */
	while (last) {
		struct chunk *before = last->next;

		last->next = chunk;
		chunk = last;
		last = before;
	}
	while (chunk) {
		struct chunk *next = chunk->next;

		/* Comes last, because it may queue the chunk again. */
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
