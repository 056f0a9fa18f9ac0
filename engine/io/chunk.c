/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Evaluates the result of a chunk: queues the rest of a short transfer, tries again, starts the
 * second half of a read-modify-write, or passes an error to the io.
 */
#include "engine/io/chunk.h"

#include "engine/backing/kind.h"
#include "engine/io/backend.h"
#include "engine/io/image_state.h"
#include "engine/io/io.h"
#include "engine/io/ioctx_state.h"
#include "engine/io/space.h"

#include "common/container_of.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* How often we queue a chunk again when the kernel lacks resources for it (EAGAIN). After that we
 * use a system call, which waits for the resources. */
#define ATTEMPTS 3
/* After this many attempts in all, the operation fails. */
#define LAST_ATTEMPT 100

static ssize_t
chunk_move(int fd, const struct chunk *chunk, int rw_flags)
{
	struct iovec iov = {chunk->buffer, (size_t)chunk->length};
	off_t offset = (off_t)chunk->offset;

	if (rw_flags && chunk->op == CHUNK_READ)
		return preadv2(fd, &iov, 1, offset, rw_flags);
	if (rw_flags)
		return pwritev2(fd, &iov, 1, offset, rw_flags);
	return chunk->op == CHUNK_READ ? pread(fd, iov.iov_base, iov.iov_len, offset)
				       : pwrite(fd, iov.iov_base, iov.iov_len, offset);
}

static ssize_t
chunk_transfer(int fd, const struct chunk *chunk)
{
	ssize_t r = chunk_move(fd, chunk, chunk->rw_flags);

	if (r >= 0 || !chunk->rw_flags || errno != EOPNOTSUPP)
		return r;
	/* Emulated kernels do not know the flags. */
	r = chunk_move(fd, chunk, 0);
	if (r >= 0 && (chunk->rw_flags & RWF_DSYNC) && fdatasync(fd) < 0)
		r = -1;
	return r;
}

/* For a kind with .read. */
static int
chunk_execute_by_kind(const struct backing *backing, const struct chunk *chunk)
{
	if (chunk->op == CHUNK_READ)
		return backing->kind->read(backing, chunk->direct, chunk->buffer, chunk->length,
					   chunk->offset);
	/* It is read-only, so it has nothing to sync either. */
	return chunk->op == CHUNK_SYNC ? 0 : -EPERM;
}

int
chunk_execute(const struct backing *backing, const struct chunk *chunk)
{
	int fd = chunk->direct ? backing->direct_fd : backing->fd;
	ssize_t r = -1;

	if (backing->indirect) {
		if (!backing->layers)
			return chunk_execute_by_kind(backing, chunk);
		fd = chunk_fd(backing, chunk);
	}
	switch (chunk->op) {
	case CHUNK_READ:
	case CHUNK_WRITE: r = chunk_transfer(fd, chunk); break;
	case CHUNK_SYNC: r = fdatasync(fd); break;
	case CHUNK_ALLOCATE:
		r = fallocate(fd, chunk->mode, (off_t)chunk->offset, (off_t)chunk->length);
		break;
	}
	return r < 0 ? -errno : (int)r;
}

static struct chunk *
chunk_of(struct helper_job *job)
{
	return container_of(job, struct chunk, job);
}

static void
chunk_lent_work(struct helper_job *job)
{
	struct chunk *chunk = chunk_of(job);

	chunk->result = chunk_execute(&chunk->io->ctx->image->backing, chunk);
}

static void
chunk_lent_done(struct helper_job *job)
{
	struct chunk *chunk = chunk_of(job);
	struct ioctx *ctx = chunk->io->ctx;

	ctx->queued++;
	chunk_done(ctx, chunk, chunk->result);
}

void
chunk_lend(struct ioctx *ctx, struct chunk *chunk)
{
	/* Until chunk_lent_done(), the chunk does not count as queued with the backend. */
	ctx->queued--;
	chunk->job.work = chunk_lent_work;
	chunk->job.done = chunk_lent_done;
	helpers_give(&ctx->helpers, &chunk->job);
}

static void
chunk_fail(struct image *image, struct chunk *chunk, int err, const char *detail)
{
	struct io *io = chunk->io;

	if (!io->reported)
		io_log_failure(image->backing.path, io, err, detail);
	io->reported = true;
	if (io->result < 0)
		return;
	/* NBD defines few errors, and the kernel's client knows only one. The log has the original
	 * error. */
	if (err == -EDQUOT || err == -EFBIG)
		err = -ENOSPC;
	io->result = err == -ENOSPC || err == -ESHUTDOWN ? err : -EIO;
}

/* A sync has succeeded; it counts only if no earlier write-back has failed. */
static void
chunk_confirm_sync(struct image *image, struct chunk *chunk)
{
	int lost = image_check_sync(image);

	if (!lost)
		return;
	chunk_fail(image, chunk, lost, "an earlier write-back failed; start the server again");
	chunk->io->written = true;
}

/*
 * After a failed write-back the kernel marks the pages clean, so a later fdatasync() would succeed
 * although the data is lost. If the page cache may have held data, we therefore let no later sync
 * of this file succeed.
 */
static void
chunk_fail_sync(struct image *image, struct chunk *chunk, int err)
{
	chunk->io->written = true;
	if (atomic_load_explicit(&image->cached, memory_order_relaxed) &&
	    shared_file_record_loss(image->shared, err))
		chunk_fail(
			image, chunk, err,
			"writing back failed, and what was written before may be lost; every later flush of this "
			"image fails until the server is restarted");
	else
		chunk_fail(image, chunk, err, NULL);
}

/* The chunk has ended, with or without success: returns it to the idle stack and settles its io. */
static void
chunk_retire(struct ioctx *ctx, struct chunk *chunk)
{
	struct io *io = chunk->io;

	ctx->idle[ctx->idle_count++] = chunk;
	io->in_flight--;
	io_settle(io);
}

static void
chunk_end_of_file(struct ioctx *ctx, struct chunk *chunk, int64_t size)
{
	char detail[96];

	snprintf(detail, sizeof(detail),
		 "the file ends at byte %lld: it was truncated while it was served",
		 (long long)size);
	chunk_fail(ctx->image, chunk, -EIO,
		   chunk->op == CHUNK_READ ? detail : "nothing was written");
	chunk_retire(ctx, chunk);
}

/* Runs on a helper's thread. The chunk has ended, and only its error message is still missing, so
 * .offset is free to hold the size of the file. */
static void
chunk_measure(struct helper_job *job)
{
	struct chunk *chunk = chunk_of(job);

	chunk->offset = (uint64_t)backing_size(&chunk->io->ctx->image->backing);
}

static void
chunk_measured(struct helper_job *job)
{
	struct chunk *chunk = chunk_of(job);

	chunk_end_of_file(chunk->io->ctx, chunk, (int64_t)chunk->offset);
}

static void
chunk_queue_again(struct ioctx *ctx, struct chunk *chunk)
{
	ctx->queued++;
	ctx->backend->queue(ctx, chunk);
}

/* The old block is in the bounce buffer: copies the new bytes into it and writes it back. */
static void
chunk_modify_write(struct ioctx *ctx, struct chunk *chunk)
{
	const struct image *image = ctx->image;
	unsigned int align = image->backing.direct_align;
	uint64_t before = chunk->start & (align - 1);

	if (chunk->payload)
		memcpy(chunk->bounce + before, chunk->payload, chunk->bytes);
	else
		memset(chunk->bounce + before, 0, chunk->bytes);
	chunk->reading = false;
	chunk->op = CHUNK_WRITE;
	chunk->buffer = chunk->bounce;
	chunk->offset = image->config.offset + chunk->start - before;
	chunk->length = align;
	chunk_queue_again(ctx, chunk);
}

/* All bytes of the chunk were moved. */
static void
chunk_transferred(struct ioctx *ctx, struct chunk *chunk)
{
	if (chunk->reading) {
		chunk_modify_write(ctx, chunk);
		return;
	}
	if (chunk->rw_flags & RWF_DSYNC)
		chunk_confirm_sync(ctx->image, chunk);
	if (chunk->op == CHUNK_READ && chunk->bounced) {
		unsigned int align = ctx->image->backing.direct_align;

		memcpy(chunk->payload, chunk->bounce + (chunk->start & (align - 1)), chunk->bytes);
	}
	if (chunk->op == CHUNK_READ && chunk->io->arrived)
		chunk->io->arrived(chunk->io, chunk->start - chunk->io->offset, chunk->bytes);
	/* A write with RWF_DONTCACHE leaves its pages in some file systems (ext4, unless it
	 * allocates). */
	if (!chunk->direct && ctx->image->sweeper)
		sweeper_touch(ctx->image->sweeper,
			      chunk->op == CHUNK_READ && (chunk->rw_flags & RWF_DONTCACHE)
				      ? SWEEP_READ_AHEAD
				      : SWEEP_PAGES);
	chunk_retire(ctx, chunk);
}

static void
chunk_transfer_done(struct ioctx *ctx, struct chunk *chunk, uint64_t moved)
{
	struct image *image = ctx->image;

	if (moved == chunk->length) {
		chunk_transferred(ctx, chunk);
		return;
	}
	counter_add(&ctx->counters, COUNTER_SHORT_TRANSFERS, 1);
	if (chunk->direct)
		moved &= ~(uint64_t)(image->backing.direct_align - 1);
	/* Finds where the file ends, for the error message. The file system may have to ask another
	 * machine for the size, so a hosted context leaves this to a helper. */
	if (moved == 0 && ctx->hosted) {
		chunk->job.work = chunk_measure;
		chunk->job.done = chunk_measured;
		helpers_give(&ctx->helpers, &chunk->job);
		return;
	}
	if (moved == 0) {
		chunk_end_of_file(ctx, chunk, backing_size(&image->backing));
		return;
	}
	chunk->buffer = (char *)chunk->buffer + moved;
	chunk->offset += moved;
	chunk->length -= moved;
	chunk_queue_again(ctx, chunk);
}

/* fallocate() has failed: issues the same part of the io again in the next best way. */
static void
chunk_allocate_failed(struct ioctx *ctx, struct chunk *chunk, int err)
{
	struct io *io = chunk->io;

	/* A temporary failure: another program has claimed the device (engine/backing/file/claim.h)
	 * and has some of its blocks in the page cache. */
	if (err == -EBUSY && ctx->image->backing.block_device) {
		io->attempt++;
		io->issued = chunk->start - io->offset;
		return;
	}
	if (err != -EOPNOTSUPP && err != -ENOSYS) {
		chunk_fail(ctx->image, chunk, err, NULL);
		return;
	}
	space_unsupported(ctx->image, io, io->attempt);
	io->issued = chunk->start - io->offset;
}

static void
chunk_failed(struct ioctx *ctx, struct chunk *chunk, int err)
{
	if (chunk->op == CHUNK_ALLOCATE)
		chunk_allocate_failed(ctx, chunk, err);
	else if (chunk->op == CHUNK_SYNC)
		chunk_fail_sync(ctx->image, chunk, err);
	else
		chunk_fail(ctx->image, chunk, err, NULL);
	chunk_retire(ctx, chunk);
}

/* The file system takes RWF_DONTCACHE for some transfers but not for this one, so the chunk goes on
 * without the flag, as do all that follow: the sweeper drops their pages. */
static bool
chunk_refuses_flag(struct ioctx *ctx, struct chunk *chunk, int result)
{
	if (result != -EOPNOTSUPP || !(chunk->rw_flags & RWF_DONTCACHE))
		return false;
	atomic_store(&ctx->image->dontcache, false);
	chunk->rw_flags &= ~RWF_DONTCACHE;
	chunk_queue_again(ctx, chunk);
	return true;
}

/* Returns whether the result is final. If it is not, the chunk is in flight again. */
static bool
chunk_is_final(struct ioctx *ctx, struct chunk *chunk, int *result)
{
	while ((*result == -EINTR || *result == -EAGAIN) && chunk->attempts < LAST_ATTEMPT) {
		counter_add(&ctx->counters, COUNTER_RETRIES, 1);
		if (++chunk->attempts <= ATTEMPTS) {
			chunk_queue_again(ctx, chunk);
			return false;
		}
		if (ctx->hosted) {
			ctx->queued++;
			chunk_lend(ctx, chunk);
			return false;
		}
		*result = chunk_execute(&ctx->image->backing, chunk);
	}
	return true;
}

void
chunk_done(struct ioctx *ctx, struct chunk *chunk, int result)
{
	ctx->queued--;
	if (!chunk_is_final(ctx, chunk, &result))
		return;
	if (result < 0) {
		if (!chunk_refuses_flag(ctx, chunk, result))
			chunk_failed(ctx, chunk, result);
		return;
	}
	if (chunk->op == CHUNK_READ || chunk->op == CHUNK_WRITE) {
		chunk_transfer_done(ctx, chunk, (uint64_t)result);
		return;
	}
	if (chunk->op == CHUNK_SYNC) {
		chunk_confirm_sync(ctx->image, chunk);
		/* Pages that were dirty can be dropped now. */
		if (ctx->image->sweeper)
			sweeper_touch(ctx->image->sweeper, SWEEP_PAGES);
	}
	chunk_retire(ctx, chunk);
}

void
chunk_completed(struct completion *completion, int result)
{
	struct chunk *chunk = container_of(completion, struct chunk, completion);

	chunk_done(chunk->io->ctx, chunk, result);
}
