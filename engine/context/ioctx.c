/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/context/ioctx.h"

#include "engine/backend/choice.h"
#include "engine/io/chunk.h"
#include "engine/io/image_state.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <assert.h>
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
use_backend(struct ioctx *ctx, const struct backend *backend, struct ring *ring)
{
	ctx->backend = backend;
	ctx->host_ring = backend->shares_ring ? ring : NULL;
	return backend->init(ctx);
}

/* Returns the backend of a new context. On an event loop, system calls that block are for other
 * threads. */
static const struct backend *
backend_for(const struct image *image, bool hosted)
{
	bool blocks = image->backend == &backend_calls && !image->backing.in_memory;

	return hosted && blocks ? &backend_threads : image->backend;
}

static int
start_backend(struct ioctx *ctx, struct ring *ring)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 60);
	int r = use_backend(ctx, backend_for(ctx->image, ctx->hosted), ring);

	if (r == 0 || ctx->backend->only)
		return r;
	if (log_limit_pass(&limit, NULL))
		log_warning("%s: no further %s context: %s; those that follow use threads",
			    ctx->image->backing.path, ctx->backend->name, strerror(-r));
	return use_backend(ctx, ctx->hosted ? &backend_threads : &backend_calls, ring);
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
	ctx->hosted = hosted;
	ctx->depth = image->config.depth;
	ctx->slot_count = hosted ? HOSTED_SLOTS : ctx->depth;
	ctx->waiting_tail = &ctx->waiting;
	ctx->inbox_event = -1;
	ctx->turn = 1;
	r = ioctx_allocate(ctx);
	if (r == 0)
		r = start_backend(ctx, ring);
	if (r < 0) {
		if (log_limit_pass(&limit, NULL))
			log_warning(
				"%s: no further I/O context: %s; requests wait for those that there are",
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
	ioctx_release(ctx);
}
