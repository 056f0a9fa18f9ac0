/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of an io: checked, given its range, issued as chunks, synced, done.
 *
 * Which chunks it is cut into is chunk_plan.c's, what becomes of their results chunk.c's.
 */
#include "engine/io/io.h"

#include "engine/context/ioctx.h"
#include "engine/io/chunk_plan.h"
#include "engine/io/image_state.h"
#include "engine/io/space.h"

#include "common/container_of.h"
#include "common/log.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

const char *
io_op_name(enum io_op op)
{
	static const char *const names[] = {
		[IO_READ] = "read",       [IO_WRITE] = "write", [IO_FLUSH] = "flush",
		[IO_DISCARD] = "discard", [IO_ZERO] = "zero",
	};

	return names[op];
}

static bool
changes_data(const struct io *io)
{
	return io->op == IO_WRITE || io->op == IO_DISCARD || io->op == IO_ZERO;
}

/* 0, or why the operation can't be done at all.  The errors are those of the NBD protocol's section
 * "Error values": what would need more space is ENOSPC. */
static int
check(const struct image *image, const struct io *io)
{
	uint64_t size = image_size(image);

	if (changes_data(io) && !image->backing.writable)
		return -EPERM;
	if (io->op == IO_FLUSH)
		return 0;
	if (io->offset > size || io->length > size - io->offset)
		return io->op == IO_WRITE || io->op == IO_ZERO ? -ENOSPC : -EINVAL;
	return 0;
}

/* A block device discards whole blocks only: the rest of the range may stay as it is. */
static void
round_discard(const struct image *image, struct io *io)
{
	uint64_t align = space_align(image);
	uint64_t start = (image->config.offset + io->offset + align - 1) / align * align;
	uint64_t end = (image->config.offset + io->offset + io->length) / align * align;

	if (end <= start) {
		io->length = 0;
		return;
	}
	io->offset = start - image->config.offset;
	io->length = end - start;
}

static void
append(struct ioctx *ctx, struct io *io)
{
	assert(!io->waiting);
	io->waiting = true;
	io->next = NULL;
	*ctx->waiting_tail = io;
	ctx->waiting_tail = &io->next;
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

static void
count(struct ioctx *ctx, const struct io *io)
{
	static const enum counter counter_of[] = {
		[IO_READ] = COUNTER_READS,    [IO_WRITE] = COUNTER_WRITES,
		[IO_FLUSH] = COUNTER_FLUSHES, [IO_DISCARD] = COUNTER_DISCARDS,
		[IO_ZERO] = COUNTER_ZEROES,
	};

	counter_add(&ctx->counters, counter_of[io->op], 1);
	if (io->result < 0 && io->result != -ECANCELED)
		counter_add(&ctx->counters, COUNTER_ERRORS, 1);
	else if (io->result == 0 && io->op == IO_READ)
		counter_add(&ctx->counters, COUNTER_READ_BYTES, io->length);
	else if (io->result == 0 && io->op == IO_WRITE)
		counter_add(&ctx->counters, COUNTER_WRITE_BYTES, io->length);
}

/* The other thread that let go of the range can't touch our context: it leaves the io in the inbox.
 */
static void
range_granted(struct range *range)
{
	struct io *io = container_of(range, struct io, range);
	struct ioctx *ctx = io->ctx;
	int event = ctx->inbox_event;

	io->next = atomic_load_explicit(&ctx->inbox, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&ctx->inbox, &io->next, io))
		;
	eventfd_write(event, 1);
}

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
		append(ctx, io);
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

/* NULL: so many changes are under way that the next one takes the longer way. */
static struct range_slot *
free_slot(struct ioctx *ctx)
{
	for (unsigned int i = 0; i < ctx->slot_count; i++) {
		if (++ctx->last_slot >= ctx->slot_count)
			ctx->last_slot = 0;
		if (atomic_load_explicit(&ctx->slots[ctx->last_slot].end, memory_order_relaxed) ==
		    0)
			return &ctx->slots[ctx->last_slot];
	}
	return NULL;
}

/*
 * What is changed is held from now on until it is done: so overlapping changes are carried out in
 * the order in which they were submitted, and direct I/O isn't switched meanwhile
 * (image_set_direct()).  Returns whether it is held; else the io comes back through the inbox.
 */
static bool
hold_range(struct ioctx *ctx, struct io *io)
{
	plan_range(ctx->image, io, &io->range);
	io->range.granted = range_granted;
	io->ranged = range_begin(ctx->image->ranges, &io->range, free_slot(ctx));
	return io->ranged;
}

/* Sets what is the engine's, but for the range. */
static void
start(struct ioctx *ctx, struct io *io)
{
	io->ctx = ctx;
	io->issued = 0;
	io->in_flight = 0;
	io->attempt = 0;
	io->waiting = io->durable = io->reported = io->written = false;
	io->syncing = io->op == IO_FLUSH;
	io->result = check(ctx->image, io);
	ctx->unfinished++;
	if (io->result < 0)
		image_log_failure(ctx->image, io, io->result,
				  io->result == -EPERM ? "the image is read-only"
						       : "outside the image");
}

void
io_submit(struct ioctx *ctx, struct io *io)
{
	io->ranged = io->retried = false;
	io->range = (struct range){0};
	start(ctx, io);
	if (io->op == IO_FLUSH)
		io->length = 0;
	if (io->op == IO_DISCARD && io->result == 0)
		round_discard(ctx->image, io);
	if (io->result < 0 || io->length == 0 || !changes_data(io) || hold_range(ctx, io))
		append(ctx, io);
}

void
io_retry_part(struct io *whole, struct io *part)
{
	if (!whole->ranged) {
		io_submit(whole->ctx, part);
		return;
	}
	if (part != whole)
		part->ranged = false;
	part->retried = true;
	start(whole->ctx, part);
	append(whole->ctx, part);
}

void
io_release_range(struct io *io)
{
	if (io->ranged)
		range_end(io->ctx->image->ranges, &io->range);
	io->ranged = false;
}

/* What failed, and will be tried again. */
static bool
keeps_range(const struct io *io)
{
	return io->retried || (io->result < 0 && (io->flags & IO_KEEP_RANGE));
}

static void
finish(struct ioctx *ctx, struct io *io)
{
	ctx->unfinished--;
	count(ctx, io);
	io->done(io);
}

void
io_settle(struct io *io)
{
	struct ioctx *ctx = io->ctx;

	if (io->waiting || io->in_flight)
		return;
	if (io->result == 0 && (io->issued < io->length || io->syncing)) {
		append(ctx, io);
		return;
	}
	if (!keeps_range(io))
		io_release_range(io);
	if (io->result == 0 && plan_needs_sync(io)) {
		io->syncing = true;
		append(ctx, io);
		return;
	}
	finish(ctx, io);
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
		append(ctx, io);
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
io_execute(struct ioctx *ctx, struct io *io)
{
	io->done = executed;
	ctx->waited_for = ctx->unfinished == 0 ? io : NULL;
	io_submit(ctx, io);
	while (io->done)
		ioctx_run(ctx, true);
	ctx->waited_for = NULL;
	return io->result;
}
