/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes contexts, and runs them: takes ios from the context's list, issues them chunk by chunk, and
 * lets the backend hand the chunks to the kernel.
 */
#include "engine/context/ioctx.h"

#include "engine/backend/choice.h"
#include "engine/io/chunk.h"
#include "engine/io/image_state.h"
#include "engine/io/io.h"
#include "engine/io/layered.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* An event loop submits many operations at once, a thread only one. */
#define HOSTED_SLOTS 256

/* How many helpers wait for the few chunks that the backend lends them, when memory is reserved. */
#define RESERVED_HELPERS 4

static int
ioctx_allocate(struct ioctx *ctx)
{
	ctx->arena = arena_take(&ctx->image->arena);
	if (!ctx->arena)
		return -ENOMEM;
	ctx->chunks = calloc(ctx->depth, sizeof(*ctx->chunks));
	ctx->idle = calloc(ctx->depth, sizeof(*ctx->idle));
	ctx->slots = calloc(ctx->slot_count, sizeof(*ctx->slots));
	if (!ctx->chunks || !ctx->idle || !ctx->slots)
		return -ENOMEM;
	/* The first chunk is on top of the stack, so its buffer is the one that stays in the
	 * caches. */
	for (unsigned int i = ctx->depth; i-- > 0;) {
		ctx->chunks[i].bounce = ctx->arena + (size_t)i * CHUNK_SIZE;
		ctx->idle[ctx->idle_count++] = &ctx->chunks[i];
	}
	ctx->inbox_event = eventfd(0, EFD_CLOEXEC);
	if (ctx->inbox_event < 0)
		return -errno;
	if (ctx->hosted)
		helpers_init(&ctx->helpers, ctx->inbox_event);
	return 0;
}

static void
ioctx_release(struct ioctx *ctx)
{
	if (ctx->inbox_event >= 0 && ctx->hosted)
		helpers_fini(&ctx->helpers);
	if (ctx->inbox_event >= 0)
		close(ctx->inbox_event);
	if (ctx->arena)
		arena_give(&ctx->image->arena, ctx->arena);
	free(ctx->slots);
	free(ctx->idle);
	free(ctx->chunks);
	free(ctx);
}

static int
ioctx_use_backend(struct ioctx *ctx, const struct backend *backend, struct ring *ring)
{
	ctx->backend = backend;
	ctx->host_ring = backend->shares_ring ? ring : NULL;
	return backend->init(ctx);
}

static int
ioctx_start_backend(struct ioctx *ctx, struct ring *ring)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 60);
	const struct image *image = ctx->image;
	bool blocks = image->backend == &backend_calls && !image->backing.in_memory;
	int r;

	/* On an event loop, system calls that block are for other threads. */
	r = ioctx_use_backend(ctx, ctx->hosted && blocks ? &backend_threads : image->backend, ring);
	if (r == 0 || ctx->backend->only)
		return r;
	if (log_limit_pass(&limit, NULL))
		log_warning("%s: cannot make another %s context: %s; further contexts use threads",
			    image->backing.path, ctx->backend->name, strerror(-r));
	return ioctx_use_backend(ctx, ctx->hosted ? &backend_threads : &backend_calls, ring);
}

static int
ioctx_make(struct image *image, bool hosted, struct ring *ring, struct ioctx **result)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 60);
	struct ioctx *ctx = aligned_alloc(64, sizeof(*ctx));
	int r;

	if (!ctx)
		return -ENOMEM;
	memset(ctx, 0, sizeof(*ctx));
	ctx->image = image;
	ctx->plan = image->plan;
	ctx->hosted = hosted;
	ctx->depth = image->config.depth;
	ctx->slot_count = hosted ? HOSTED_SLOTS : ctx->depth;
	ctx->waiting_tail = &ctx->waiting;
	ctx->inbox_event = -1;
	ctx->turn = 1;
	r = ioctx_allocate(ctx);
	if (r == 0)
		r = ioctx_start_backend(ctx, ring);
	if (r < 0) {
		if (log_limit_pass(&limit, NULL))
			log_warning(
				"%s: cannot make another I/O context: %s; requests wait for the existing ones",
				image->backing.path, strerror(-r));
		ioctx_release(ctx);
		return r;
	}
	range_track_add(image->ranges, &ctx->track, ctx->slots, ctx->slot_count);
	*result = ctx;
	return 0;
}

int
ioctx_new(struct image *image, struct ioctx **result)
{
	return ioctx_make(image, false, NULL, result);
}

int
ioctx_new_hosted(struct image *image, struct ring *ring, struct ioctx **result)
{
	return ioctx_make(image, true, ring, result);
}

int
ioctx_event(const struct ioctx *ctx)
{
	return ctx->inbox_event;
}

void
ioctx_help(struct ioctx *ctx, struct helper_job *job)
{
	assert(ctx->hosted);
	helpers_give(&ctx->helpers, job);
}

void
ioctx_populate(struct ioctx *ctx)
{
	memset(ctx->arena, 0, (size_t)ctx->depth * CHUNK_SIZE);
	if (ctx->image->sweeper)
		sweeper_reserve(ctx->image->sweeper);
	if (ctx->backend->reserve)
		ctx->backend->reserve(ctx);
	if (ctx->hosted)
		helpers_reserve(&ctx->helpers,
				ctx->backend == &backend_threads ? HELPERS : RESERVED_HELPERS,
				true);
}

void
ioctx_free(struct ioctx *ctx)
{
	assert(ctx->unfinished == 0 && ctx->queued == 0);
	range_track_remove(ctx->image->ranges, &ctx->track);
	/* What they have left is done, but the context has not waited for them. */
	while (atomic_load(&ctx->telling) > 0)
		sched_yield();
	ctx->backend->fini(ctx);
	layered_fini(ctx);
	ioctx_release(ctx);
}

/* ---- running */

static void
ioctx_collect_inbox(struct ioctx *ctx)
{
	struct io *io;

	if (!atomic_load_explicit(&ctx->inbox, memory_order_relaxed))
		return;
	io = atomic_exchange(&ctx->inbox, NULL);
	while (io) {
		struct io *next = io->next;

		io_come_back(io);
		io = next;
	}
}

/* Collects the ios and the jobs that other threads have left for this one. */
static void
ioctx_collect(struct ioctx *ctx)
{
	ioctx_collect_inbox(ctx);
	if (ctx->helpers.under_way > 0)
		helpers_collect(&ctx->helpers);
}

/* Returns whether another chunk of the io may be issued while `chunk`, the last one issued, is in
 * flight. Only the result of fallocate() shows whether the rest must be written instead. */
static bool
ioctx_has_more(const struct io *io, const struct chunk *chunk)
{
	return io->issued < io->length && chunk->op != CHUNK_ALLOCATE;
}

/* Issues one chunk of the io, or settles the io if it has nothing to issue. */
static void
ioctx_issue_one(struct ioctx *ctx, struct io *io)
{
	struct chunk *chunk;

	if (io->result == 0 && io->issued < io->length && io->wanted && !io->wanted(io))
		io->result = -ECANCELED;
	if (io->result < 0 || (io->issued == io->length && !io->syncing)) {
		io_settle(io);
		return;
	}
	chunk = ctx->idle[--ctx->idle_count];
	if (!ctx->plan(ctx->image, io, chunk)) {
		ctx->idle[ctx->idle_count++] = chunk;
		io_settle(io);
		return;
	}
	io->in_flight++;
	ctx->queued++;
	/* If a thread waits for a single operation that is a single chunk, a ring gains nothing:
	 * the plain system call sleeps and wakes once as well, and costs less CPU (with nbdkit and
	 * 4 KiB reads at queue depth 32, a quarter of the server's CPU time less). */
	if (ctx->backend->lone_by_call && ctx->waited_for && ctx->queued == 1 && !ctx->waiting &&
	    !ioctx_has_more(io, chunk)) {
		chunk_done(ctx, chunk, chunk_execute(&ctx->image->backing, chunk));
		return;
	}
	ctx->backend->queue(ctx, chunk);
	/* Round robin: a large request does not delay the small ones after it. */
	if (ioctx_has_more(io, chunk))
		io_queue(ctx, io);
}

/*
 * Returns how many completions to wait for. If a thread waits for a single operation, and all of it
 * is in flight, the thread need not wake for each chunk: a write has nothing to do until the last
 * chunk, and a read copies one half while the other half is still in flight.
 */
static unsigned int
ioctx_awaited(const struct ioctx *ctx)
{
	if (!ctx->waited_for || ctx->waiting)
		return 1;
	return ctx->waited_for->op == IO_READ ? (ctx->queued + 1) / 2 : ctx->queued;
}

/* If a backend fails to submit or to wait, it keeps its chunks. All that we can do is try again,
 * after a pause. */
static void
ioctx_run_backend(struct ioctx *ctx, bool wait)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 10);
	int r = ctx->backend->run(ctx, wait ? ioctx_awaited(ctx) : 0);

	if (r == 0)
		return;
	if (log_limit_pass(&limit, NULL))
		log_error("%s: %s: %s; trying again", ctx->image->backing.path, ctx->backend->name,
			  strerror(-r));
	if (wait)
		usleep(1000);
}

/*
 * This many bytes are handed to the kernel at once, four of the largest chunks, and not all. The
 * kernel merges chunks that one call submits into one request, which moves its megabyte only as
 * fast as a single request can, and completes as a whole. In parts, the device works on several,
 * and copying proceeds at the same time.
 */
#define HANDOVER (4 * CHUNK_SIZE)

/* A small io counts as this many bytes: so at most 32 are handed over at once, and the device
 * begins with the first of them while the others are prepared. */
#define HANDOVER_SMALL (HANDOVER / 32)

static unsigned int
ioctx_handover_share(const struct io *io)
{
	if (io->length >= CHUNK_SIZE)
		return CHUNK_SIZE;
	return io->length > HANDOVER_SMALL ? (unsigned int)io->length : HANDOVER_SMALL;
}

static void
ioctx_issue(struct ioctx *ctx)
{
	unsigned int issued = 0;

	while (ctx->waiting && ctx->idle_count > 0 && ctx->turn > 0) {
		struct io *io;

		if (issued >= HANDOVER && !ctx->backend->serial) {
			ioctx_run_backend(ctx, false);
			issued = 0;
		}
		/* Only now: an io that is in no list must not be settled by the backend. */
		io = ctx->waiting;
		ctx->waiting = io->next;
		if (!ctx->waiting)
			ctx->waiting_tail = &ctx->waiting;
		io->waiting = false;
		issued += ioctx_handover_share(io);
		ioctx_issue_one(ctx, io);
	}
}

/* The most bytes that a host's thread moves itself before it serves others, which takes some
 * milliseconds. */
#define TURN_BYTES ((int64_t)2 << 20)

/* Runs a context whose host shares no ring. If no chunk is in flight at the end, no event would
 * make the host run ios that have waited for a chunk, so this function issues them itself. If it
 * stops because the turn was long enough, ioctx_wants_run() brings the host back for the rest. */
static void
ioctx_run_hosted(struct ioctx *ctx)
{
	unsigned int idle, queued;
	bool again;

	ctx->turn = TURN_BYTES;
	do {
		ioctx_collect_inbox(ctx);
		ioctx_issue(ctx);
		idle = ctx->idle_count;
		if (ctx->queued > 0)
			ioctx_run_backend(ctx, false);
		queued = ctx->backend->serial ? 0 : ctx->queued;
		if (ctx->helpers.under_way > 0)
			helpers_collect(&ctx->helpers);
		/* A chunk may be queued again, to be tried in another way. A serial backend
		 * executes all its chunks in one run. */
		again = ctx->queued > queued;
	} while (again || (ctx->turn > 0 && ctx->waiting && ctx->idle_count > idle));
}

void
ioctx_run(struct ioctx *ctx, bool wait)
{
	unsigned int unfinished = ctx->unfinished;

	if (ctx->hosted && !ctx->host_ring) {
		ioctx_run_hosted(ctx);
		return;
	}

	ioctx_collect(ctx);
	ioctx_issue(ctx);
	if (ctx->queued == 0 && wait && ctx->unfinished > 0 && ctx->unfinished == unfinished &&
	    !ctx->waiting) {
		/* All remaining ios wait for ranges that other threads hold, or for observers. */
		eventfd_t n;

		eventfd_read(ctx->inbox_event, &n);
		ioctx_collect(ctx);
		ioctx_issue(ctx);
	}
	/* A host that shares its ring submits with its own next wait. */
	if (ctx->queued > 0 && !ctx->host_ring)
		ioctx_run_backend(ctx, wait && ctx->unfinished == unfinished);
}

static void
ioctx_executed(struct io *io)
{
	io->done = NULL;
}

int
ioctx_execute(struct ioctx *ctx, struct io *io)
{
	io->done = ioctx_executed;
	ctx->waited_for = ctx->unfinished == 0 ? io : NULL;
	io_submit(ctx, io);
	while (io->done)
		ioctx_run(ctx, true);
	ctx->waited_for = NULL;
	return io->result;
}
