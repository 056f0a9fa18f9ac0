/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way to a backing that has asynchronous calls of its own (.start of struct backing_kind): an
 * image in Ceph. The calls end on other threads, which put them into a list of the context.
 */
#include "engine/backend/choice.h"

#include "engine/backing/kind.h"
#include "engine/io/chunk.h"
#include "engine/io/image_state.h"
#include "engine/io/io.h"
#include "engine/io/ioctx_state.h"

#include <errno.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <sys/eventfd.h>

struct own_calls {
	_Atomic(struct backing_call *) ended; /* newest first */
	struct backing_call calls[];          /* one for each chunk of the context */
};

static int
own_calls_init(struct ioctx *ctx)
{
	struct own_calls *state = calloc(1, sizeof(*state) + ctx->depth * sizeof(state->calls[0]));

	if (!state)
		return -ENOMEM;
	ctx->backend_state = state;
	return 0;
}

static void
own_calls_fini(struct ioctx *ctx)
{
	free(ctx->backend_state);
}

static enum call_op
own_calls_op(const struct chunk *chunk)
{
	switch (chunk->op) {
	case CHUNK_READ: return CALL_READ;
	case CHUNK_WRITE: return CALL_WRITE;
	case CHUNK_SYNC: return CALL_FLUSH;
	case CHUNK_ALLOCATE: break;
	}
	if (chunk->io->op == IO_DISCARD)
		return CALL_DISCARD;
	return chunk->mode & FALLOC_FL_PUNCH_HOLE ? CALL_ZERO : CALL_ZERO_THICK;
}

/* On any thread. If the list is not empty, the context has been told already. */
static void
own_calls_ended(struct backing_call *call, int result)
{
	struct ioctx *ctx = call->owner;
	struct own_calls *state = ctx->backend_state;
	struct backing_call *before = atomic_load_explicit(&state->ended, memory_order_relaxed);

	call->result = result;
	atomic_fetch_add(&ctx->telling, 1);
	/* Once it is in the list, the call is the context's. */
	do
		call->next = before;
	while (!atomic_compare_exchange_weak(&state->ended, &before, call));
	if (!before)
		eventfd_write(ctx->inbox_event, 1);
	atomic_fetch_sub(&ctx->telling, 1);
}

static void
own_calls_queue(struct ioctx *ctx, struct chunk *chunk)
{
	struct own_calls *state = ctx->backend_state;
	const struct backing *backing = &ctx->image->backing;
	struct backing_call *call = &state->calls[chunk - ctx->chunks];

	*call = (struct backing_call){
		.op = own_calls_op(chunk),
		.offset = chunk->offset,
		.length = chunk->length,
		.buffer = chunk->buffer,
		.done = own_calls_ended,
		.owner = ctx,
	};
	backing->kind->start(backing, call);
}

/* Takes the calls that have ended, oldest first. */
static struct backing_call *
own_calls_take(struct own_calls *state)
{
	struct backing_call *call = NULL, *next = NULL;

	if (atomic_load_explicit(&state->ended, memory_order_relaxed))
		call = atomic_exchange(&state->ended, NULL);
	while (call) {
		struct backing_call *older = call->next;

		call->next = next;
		next = call;
		call = older;
	}
	return next;
}

static unsigned int
own_calls_collect(struct ioctx *ctx)
{
	struct own_calls *state = ctx->backend_state;
	unsigned int count = 0;

	for (struct backing_call *call = own_calls_take(state), *next; call; call = next) {
		next = call->next;
		count++;
		/* May queue the chunk again, which uses the same call. */
		chunk_done(ctx, &ctx->chunks[call - state->calls], call->result);
	}
	return count;
}

static int
own_calls_run(struct ioctx *ctx, unsigned int min)
{
	unsigned int count = own_calls_collect(ctx);

	while (count < min && ctx->queued > 0) {
		eventfd_t n;

		eventfd_read(ctx->inbox_event, &n);
		count += own_calls_collect(ctx);
	}
	return 0;
}

const struct backend backend_own_calls = {
	.name = "calls of its own",
	.only = true,
	.init = own_calls_init,
	.fini = own_calls_fini,
	.queue = own_calls_queue,
	.run = own_calls_run,
};
