/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of an io: it is checked, gets its range, is queued until it is issued, is synced, and
 * completes.
 *
 * engine/context/ioctx.c issues it, chunk_plan.c cuts it into chunks, and chunk.c evaluates
 * their results.
 */
#include "engine/io/io.h"

#include "engine/io/image_state.h"
#include "engine/io/ioctx_state.h"
#include "engine/io/observer.h"

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
	if (err == -ETXTBSY && !detail)
		detail = "it is swap space; swapoff ends that";
	if (io->op == IO_FLUSH)
		log_error("%s: flush failed: %s%s%s%s", path, strerror(-err), detail ? ": " : "",
			  detail ? detail : "", more);
	else
		log_error("%s: %s of %llu bytes at offset %llu failed: %s%s%s%s", path,
			  io_op_name(io->op), (unsigned long long)io->length,
			  (unsigned long long)io->offset, strerror(-err), detail ? ": " : "",
			  detail ? detail : "", more);
}

/* Returns 0, or -errno if the operation is impossible. The errors follow the section "Error values"
 * of the NBD protocol: an operation that would need more space gets ENOSPC. */
static int
io_check(const struct image *image, const struct io *io)
{
	uint64_t size = atomic_load_explicit(&image->size, memory_order_relaxed);

	if (io_changes_data(io) && !image->backing.writable)
		return -EPERM;
	if (io->op == IO_FLUSH)
		return 0;
	if (io->offset > size || io->length > size - io->offset)
		return io->op == IO_WRITE || io->op == IO_ZERO ? -ENOSPC : -EINVAL;
	return 0;
}

/* A block device discards only whole blocks; the rest of the range may keep its contents. */
static void
io_round_discard(const struct image *image, struct io *io)
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
io_count(struct ioctx *ctx, const struct io *io)
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
	if (io->in_registered)
		counter_add(&ctx->counters, COUNTER_REGISTERED, 1);
}

/* Called by the thread that released a range in our way, or by an observer. That thread must not
 * touch our context, so it puts the io into the inbox. */
static void
io_range_granted(struct range *range)
{
	struct io *io = io_of_range(range);
	struct ioctx *ctx = io->ctx;
	struct io *next = atomic_load_explicit(&ctx->inbox, memory_order_relaxed);

	/* As soon as the io is in the inbox, the context may complete it, and end. */
	atomic_fetch_add(&ctx->telling, 1);
	do {
		io->next = next;
	} while (!atomic_compare_exchange_weak(&ctx->inbox, &next, io));
	/* If the inbox was not empty, the context has been told already. */
	if (!next)
		eventfd_write(ctx->inbox_event, 1);
	atomic_fetch_sub(&ctx->telling, 1);
}

void
io_range(const struct image *image, const struct io *io, struct range *range)
{
	unsigned int direct = image->backing.direct_fd >= 0 ? image->backing.direct_align : 1;
	uint64_t align = direct > image->backing.block_size ? direct : image->backing.block_size;
	uint64_t start = image->config.offset + io->offset;

	range->start = start & ~(align - 1);
	range->end = (start + io->length + align - 1) & ~(align - 1);
}

/* Returns a free slot, or NULL if all are taken: the next change then takes the longer way through
 * the queue. */
static struct range_slot *
io_free_slot(struct ioctx *ctx)
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
 * The moment between planning a change and its acknowledgement: the io holds its range, and nothing
 * of it is planned yet. Here, and nowhere else, the observers of the file do what must come before
 * the change: a snapshot's copies the old bytes, that of checkpoints records what changes. Returns
 * whether the io may go on at once; otherwise it comes back through the inbox.
 */
static bool
io_before_change(struct io *io)
{
	/* If it has come back, an observer has released it, and those after that are asked. */
	if (!io->ranged)
		io->range.observer = NULL;
	io->ranged = true;
	return observers_ask(io->ctx->image->ranges, &io->range);
}

/*
 * Holds the range that the io changes until its last chunk is done; a sync comes later. So
 * overlapping changes run in the order in which they were submitted, and direct I/O is not switched
 * while a change is in flight (image_set_direct()). Returns whether the io may go on at once, as
 * above.
 */
static bool
io_hold_range(struct ioctx *ctx, struct io *io)
{
	enum range_grant grant;

	io_range(ctx->image, io, &io->range);
	io->range.granted = io_range_granted;
	grant = range_begin(ctx->image->ranges, &io->range, io_free_slot(ctx));
	if (grant == RANGE_HELD)
		io->ranged = true;
	return grant == RANGE_HELD || (grant == RANGE_WATCHED && io_before_change(io));
}

void
io_come_back(struct io *io)
{
	if (io_before_change(io))
		io_queue(io->ctx, io);
}

/* Sets the engine's members of the io, except those about the range. */
static void
io_start(struct ioctx *ctx, struct io *io)
{
	io->ctx = ctx;
	io->issued = 0;
	io->in_flight = 0;
	io->attempt = 0;
	io->waiting = io->durable = io->reported = io->written = io->in_registered = false;
	io->care = 0;
	io->syncing = io->op == IO_FLUSH;
	io->result = io_check(ctx->image, io);
	ctx->unfinished++;
	if (io->result < 0)
		io_log_failure(ctx->image->backing.path, io, io->result,
			       io->result == -EPERM ? "the image is read-only"
						    : "outside the image");
}

void
io_submit(struct ioctx *ctx, struct io *io)
{
	io->ranged = false;
	io_start(ctx, io);
	if (io->op == IO_FLUSH)
		io->length = 0;
	if (io->op == IO_DISCARD && io->result == 0)
		io_round_discard(ctx->image, io);
	if (io->result < 0 || io->length == 0 || !io_changes_data(io) || io_hold_range(ctx, io))
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
	io_start(whole->ctx, part);
	part->care = IO_RETRIED;
	if (part->result < 0 || !whole->ctx->image->steps ||
	    whole->ctx->image->steps->before_retry(part))
		io_queue(whole->ctx, part);
}

void
io_release_range(struct io *io)
{
	if (io->ranged)
		range_end(io->ctx->image->ranges, &io->range);
	io->ranged = false;
}

/* A write that failed and may be tried again keeps its range. */
static inline void
io_end_range(struct io *io)
{
	if (!(io->result < 0 && (io->flags & IO_KEEP_RANGE)))
		io_release_range(io);
}

/* Returns whether the io may go on; otherwise io_settle() is called again. A retry keeps its range.
 */
static __attribute__((noinline)) bool
io_take_care(struct io *io)
{
	if ((io->care & IO_STEPS) && io->result == 0 && !io->ctx->image->steps->after_change(io))
		return false;
	if (!(io->care & IO_RETRIED))
		io_end_range(io);
	return true;
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
	if (__builtin_expect(io->care == 0, 1))
		io_end_range(io);
	else if (!io_take_care(io))
		return;
	/* All data is written, and FUA still requires a sync. */
	if (io->result == 0 && (io->flags & IO_FUA) && !io->durable && io->op != IO_READ) {
		io->syncing = true;
		io_queue(ctx, io);
		return;
	}
	ctx->unfinished--;
	io_count(ctx, io);
	io->done(io);
}
