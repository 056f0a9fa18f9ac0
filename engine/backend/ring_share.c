/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backend/ring_share.h"

#include "engine/backend/ring.h"
#include "engine/io/chunk.h"
#include "engine/io/image_state.h"
#include "engine/io/io.h"
#include "engine/io/ioctx_state.h"

#include "common/container_of.h"
#include "common/locked_memory.h"
#include "common/log.h"

#include <string.h>
#include <sys/uio.h>

/* Indices of the share's registered files. */
enum {
	BUFFERED_FILE,
	DIRECT_FILE,
};

void
ring_share_init(struct ring_share *share, struct ring *ring, const struct backing *backing)
{
	/* Each place needs a descriptor; without a direct one, the second place is not used. */
	const int files[RING_SHARE_FILES] = {
		[BUFFERED_FILE] = backing->fd,
		[DIRECT_FILE] = backing->direct_fd >= 0 ? backing->direct_fd : backing->fd,
	};

	share->ring = ring;
	share->files = ring_add_files(ring, files, RING_SHARE_FILES);
}

void
ring_share_fini(struct ring_share *share)
{
	ring_remove_files(share->ring, share->files, RING_SHARE_FILES);
}

static int
register_first(struct ring *ring, const struct ioctx *ctx, unsigned int chunks)
{
	const struct iovec iov = {ctx->arena, (size_t)chunks * CHUNK_SIZE};
	int r = io_uring_register_buffers(&ring->uring, &iov, 1);

	return r < 0 ? r : (int)chunks;
}

unsigned int
ring_share_register_arena(struct ring_share *share, const struct ioctx *ctx)
{
	static struct log_limit once = LOG_LIMIT_INIT(1, UINT32_MAX);
	int r = locked_memory_is_plentiful() ? register_first(share->ring, ctx, ctx->depth)
					     : -ENOMEM;

	if (r < 0)
		r = register_first(share->ring, ctx, 1);
	if (r < 0 && log_limit_pass(&once, NULL))
		log_warning(
			"%s: buffers are not registered with io_uring: %s; requests cost a little more "
			"(see ulimit -l)",
			ctx->image->backing.path, strerror(-r));
	return r < 0 ? 0 : (unsigned int)r;
}

static void
completed(struct completion *completion, int result)
{
	struct chunk *chunk = container_of(completion, struct chunk, completion);

	chunk_done(chunk->io->ctx, chunk, result);
}

static void
prepare_transfer(struct io_uring_sqe *sqe, int file, const struct chunk *chunk)
{
	unsigned int length = (unsigned int)chunk->length;

	/* The arena is the only registered buffer, with number 0. */
	if (chunk->op == CHUNK_READ && chunk->registered)
		io_uring_prep_read_fixed(sqe, file, chunk->buffer, length, chunk->offset, 0);
	else if (chunk->op == CHUNK_READ)
		io_uring_prep_read(sqe, file, chunk->buffer, length, chunk->offset);
	else if (chunk->registered)
		io_uring_prep_write_fixed(sqe, file, chunk->buffer, length, chunk->offset, 0);
	else
		io_uring_prep_write(sqe, file, chunk->buffer, length, chunk->offset);
	if (chunk->dsync)
		sqe->rw_flags = RWF_DSYNC;
}

void
ring_share_queue(struct ring_share *share, const struct backing *backing, struct chunk *chunk)
{
	struct io_uring_sqe *sqe = ring_queue(share->ring);
	int file = share->files + (chunk->direct ? DIRECT_FILE : BUFFERED_FILE);

	if (share->files < 0)
		file = chunk->direct ? backing->direct_fd : backing->fd;
	switch (chunk->op) {
	case CHUNK_READ:
	case CHUNK_WRITE: prepare_transfer(sqe, file, chunk); break;
	case CHUNK_SYNC: io_uring_prep_fsync(sqe, file, IORING_FSYNC_DATASYNC); break;
	case CHUNK_ALLOCATE:
		io_uring_prep_fallocate(sqe, file, chunk->mode, chunk->offset, chunk->length);
		break;
	}
	if (share->files >= 0)
		io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
	chunk->completion.done = completed;
	io_uring_sqe_set_data(sqe, &chunk->completion);
}
