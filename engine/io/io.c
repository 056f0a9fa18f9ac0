/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of an io: checked, given its range, queued until it is issued, synced, done.
 *
 * engine/context/ioctx_run.c issues it: chunk_plan.c cuts it into chunks, and chunk.c takes their
 * results.
 */
#include "engine/io/io.h"

#include "engine/io/image_state.h"
#include "engine/io/ioctx_state.h"

#include "common/container_of.h"
#include "common/log.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

const char *
io_op_name(enum io_op op)
{
	static const char *const names[] = {
		[IO_READ] = "read",       [IO_WRITE] = "write", [IO_FLUSH] = "flush",
		[IO_DISCARD] = "discard", [IO_ZERO] = "zero",
	};

	return names[op];
}

void
io_log_failure(const char *path, const struct io *io, int err, const char *detail)
{
	static struct log_limit limit = LOG_LIMIT_INIT(10, 10);
	char more[LOG_LEFT_OUT];
	unsigned int suppressed;

	if (!log_limit_pass(&limit, &suppressed))
		return;
	log_left_out(suppressed, more);
	if (io->op == IO_FLUSH)
		log_error("%s: flush failed: %s%s%s%s", path, strerror(-err), detail ? ": " : "",
			  detail ? detail : "", more);
	else
		log_error("%s: %s of %llu bytes at offset %llu failed: %s%s%s%s", path,
			  io_op_name(io->op), (unsigned long long)io->length,
			  (unsigned long long)io->offset, strerror(-err), detail ? ": " : "",
			  detail ? detail : "", more);
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
	uint64_t size = atomic_load_explicit(&image->size, memory_order_relaxed);

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
	uint64_t align = image->backing.block_size;
	uint64_t start = (image->config.offset + io->offset + align - 1) / align * align;
	uint64_t end = (image->config.offset + io->offset + io->length) / align * align;

	if (end <= start) {
		io->length = 0;
		return;
	}
	io->offset = start - image->config.offset;
	io->length = end - start;
}

void
io_queue(struct ioctx *ctx, struct io *io)
{
	assert(!io->waiting);
	io->waiting = true;
	io->next = NULL;
	*ctx->waiting_tail = io;
	ctx->waiting_tail = &io->next;
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

/* Bytes of the file that direct I/O to a part of them may read and write back. */
static unsigned int
block_of(const struct image *image)
{
	unsigned int direct = image->backing.direct_fd >= 0 ? image->backing.direct_align : 1;

	return direct > image->backing.block_size ? direct : image->backing.block_size;
}

void
io_range(const struct image *image, const struct io *io, struct range *range)
{
	uint64_t align = block_of(image);
	uint64_t start = image->config.offset + io->offset;

	range->start = start & ~(align - 1);
	range->end = (start + io->length + align - 1) & ~(align - 1);
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
	io_range(ctx->image, io, &io->range);
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
		io_log_failure(ctx->image->backing.path, io, io->result,
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
		io_queue(ctx, io);
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
	io_queue(whole->ctx, part);
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

/* Whether all is written, but FUA still asks for a sync. */
static bool
needs_sync(const struct io *io)
{
	return (io->flags & IO_FUA) && !io->durable && io->op != IO_READ;
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
		io_queue(ctx, io);
		return;
	}
	if (!keeps_range(io))
		io_release_range(io);
	if (io->result == 0 && needs_sync(io)) {
		io->syncing = true;
		io_queue(ctx, io);
		return;
	}
	finish(ctx, io);
}
