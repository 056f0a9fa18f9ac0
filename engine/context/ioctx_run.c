/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context at work: takes ios from its list, issues them chunk by chunk, and has the backend hand
 * the chunks to the kernel.
 */
#include "engine/context/ioctx.h"

#include "engine/io/backend.h"
#include "engine/io/chunk.h"
#include "engine/io/chunk_plan.h"
#include "engine/io/image_state.h"
#include "engine/io/io.h"
#include "engine/io/ioctx_state.h"

#include "common/log.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void
collect_inbox(struct ioctx *ctx)
{
	struct io *io;

	if (!atomic_load_explicit(&ctx->inbox, memory_order_relaxed))
		return;
	io = atomic_exchange(&ctx->inbox, NULL);
	while (io) {
		struct io *next = io->next;

		io->ranged = true;
		io_queue(ctx, io);
		io = next;
	}
}

/* What other threads have left for this one. */
static void
collect(struct ioctx *ctx)
{
	collect_inbox(ctx);
	if (ctx->helpers.under_way > 0)
		helpers_collect(&ctx->helpers);
}

static struct io *
pop(struct ioctx *ctx)
{
	struct io *io = ctx->waiting;

	ctx->waiting = io->next;
	if (!ctx->waiting)
		ctx->waiting_tail = &ctx->waiting;
	io->waiting = false;
	return io;
}

/*
 * A thread that waits for one operation, all of which is one chunk, gains nothing from a ring: the
 * plain system call sleeps and wakes once as well, and costs less on the way (in nbdkit, 4 KiB
 * reads at depth 32: a quarter of the server's CPU).
 */
static bool
is_lone(const struct ioctx *ctx, const struct io *io, const struct chunk *chunk)
{
	return ctx->backend->lone_by_call && ctx->waited_for && ctx->queued == 1 && !ctx->waiting &&
	       !plan_has_more(io, chunk);
}

/* Issues one chunk of the io, or finds that it is done. */
static void
issue_one(struct ioctx *ctx, struct io *io)
{
	struct chunk *chunk;

	if (io->result == 0 && io->issued < io->length && io->wanted && !io->wanted(io))
		io->result = -ECANCELED;
	if (io->result < 0 || (io->issued == io->length && !io->syncing)) {
		io_settle(io);
		return;
	}
	chunk = ctx->idle[--ctx->idle_count];
	if (!plan_chunk(ctx->image, io, chunk)) {
		ctx->idle[ctx->idle_count++] = chunk;
		io_settle(io);
		return;
	}
	io->in_flight++;
	ctx->queued++;
	if (is_lone(ctx, io, chunk)) {
		chunk_done(ctx, chunk, chunk_execute(&ctx->image->backing, chunk));
		return;
	}
	ctx->backend->queue(ctx, chunk);
	/* Round robin: a large request doesn't hold up the small ones behind it. */
	if (plan_has_more(io, chunk))
		io_queue(ctx, io);
}

/*
 * A thread that waits for one operation, all of which is under way, needn't be woken for each
 * chunk: a write has nothing to do until the last one, and a read copies one half while the other
 * is still to come.
 */
static unsigned int
worth_waiting_for(const struct ioctx *ctx)
{
	if (!ctx->waited_for || ctx->waiting)
		return 1;
	return ctx->waited_for->op == IO_READ ? (ctx->queued + 1) / 2 : ctx->queued;
}

/* A backend that can't even submit or wait keeps its chunks: there is nothing better than to go on
 * trying, but not as fast as we can. */
static void
run_backend(struct ioctx *ctx, bool wait)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 10);
	int r = ctx->backend->run(ctx, wait ? worth_waiting_for(ctx) : 0);

	if (r == 0)
		return;
	if (log_limit_pass(&limit, NULL))
		log_error("%s: %s: %s; trying again", ctx->image->backing.path, ctx->backend->name,
			  strerror(-r));
	if (wait)
		usleep(1000);
}

/*
 * So many chunks are handed over at once.  Not all: what is submitted in one call, the kernel
 * merges into one request, which moves its megabyte at the pace of a single one and completes as a
 * whole.  In parts, the device works on several, and copying goes on beside it.
 */
#define HANDOVER 4

static void
issue(struct ioctx *ctx)
{
	unsigned int issued = 0;

	while (ctx->waiting && ctx->idle_count > 0 && ctx->turn > 0) {
		if (issued == HANDOVER && !ctx->backend->serial) {
			run_backend(ctx, false);
			issued = 0;
		}
		issue_one(ctx, pop(ctx));
		issued++;
	}
}

/* Most bytes that a host's thread moves itself before it looks after others: some milliseconds. */
#define TURN_BYTES ((int64_t)2 << 20)

/* For a host without a ring: nobody comes back for what was waiting for a chunk when no chunk is
 * under way.  But where the turn was long enough, ioctx_wants_run() has the host come back for the
 * rest. */
static void
run_hosted(struct ioctx *ctx)
{
	unsigned int idle;
	bool again;

	ctx->turn = TURN_BYTES;
	do {
		collect(ctx);
		issue(ctx);
		idle = ctx->idle_count;
		if (ctx->queued > 0)
			run_backend(ctx, false);
		/* A backend that carries out all at once has it queued again, to be tried another
		 * way. */
		again = ctx->backend->serial && ctx->queued > 0;
	} while (again || (ctx->turn > 0 && ctx->waiting && ctx->idle_count > idle));
}

void
ioctx_run(struct ioctx *ctx, bool wait)
{
	unsigned int unfinished = ctx->unfinished;

	if (ctx->hosted && !ctx->host_ring) {
		run_hosted(ctx);
		return;
	}

	collect(ctx);
	issue(ctx);
	if (ctx->queued == 0 && wait && ctx->unfinished > 0 && ctx->unfinished == unfinished &&
	    !ctx->waiting) {
		/* All that is left waits for other threads to let go of their ranges. */
		eventfd_t n;

		eventfd_read(ctx->inbox_event, &n);
		collect(ctx);
		issue(ctx);
	}
	/* A host that shares its ring submits with its own next wait. */
	if (ctx->queued > 0 && !ctx->host_ring)
		run_backend(ctx, wait && ctx->unfinished == unfinished);
}

static void
executed(struct io *io)
{
	io->done = NULL;
}

int
ioctx_execute(struct ioctx *ctx, struct io *io)
{
	io->done = executed;
	ctx->waited_for = ctx->unfinished == 0 ? io : NULL;
	io_submit(ctx, io);
	while (io->done)
		ioctx_run(ctx, true);
	ctx->waited_for = NULL;
	return io->result;
}
