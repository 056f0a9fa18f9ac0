/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/ring.h"

#include "engine/backend.h"
#include "engine/image_state.h"
#include "engine/ioctx.h"
#include "engine/locked_memory.h"

#include "common/log.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

/* Numbers of the registered files. */
enum {
	BUFFERED_FILE,
	DIRECT_FILE,
};

int
ring_init(struct ring *ring, const struct backing *backing, unsigned int depth, unsigned int flags)
{
	/* The kernel wants a number in each place; the direct one isn't used when it isn't there. */
	const int files[] = {
		[BUFFERED_FILE] = backing->fd,
		[DIRECT_FILE] = backing->direct_fd >= 0 ? backing->direct_fd : backing->fd,
	};
	int r;

	memset(ring, 0, sizeof(*ring));
	/* Our thread comes into the kernel to wait anyway: no need to interrupt it (Linux 5.19). */
	r = io_uring_queue_init(depth, &ring->uring, flags | IORING_SETUP_COOP_TASKRUN);
	if (r == -EINVAL)
		r = io_uring_queue_init(depth, &ring->uring, flags);
	if (r < 0)
		return r;
	ring->files_registered = io_uring_register_files(&ring->uring, files, 2) == 0;
	return 0;
}

void
ring_fini(struct ring *ring)
{
	assert(ring->in_flight == 0);
	/* At once: the kernel takes a ring apart later, and meanwhile its files would keep a file system
	 * busy that somebody wants to unmount. */
	if (ring->files_registered)
		io_uring_unregister_files(&ring->uring);
	io_uring_queue_exit(&ring->uring);
}

static int
register_first(struct ring *ring, const struct ioctx *ctx, unsigned int chunks)
{
	const struct iovec iov = {ctx->arena, (size_t)chunks * CHUNK_SIZE};
	int r = io_uring_register_buffers(&ring->uring, &iov, 1);

	return r < 0 ? r : (int)chunks;
}

unsigned int
ring_register_arena(struct ring *ring, const struct ioctx *ctx)
{
	static struct log_limit once = LOG_LIMIT_INIT(1, UINT32_MAX);
	int r = locked_memory_is_plentiful() ? register_first(ring, ctx, ctx->depth) : -ENOMEM;

	if (r < 0)
		r = register_first(ring, ctx, 1);
	if (r < 0 && log_limit_pass(&once, NULL))
		log_warning("%s: buffers are not registered with io_uring: %s; requests cost a little more "
			    "(see ulimit -l)",
			    ctx->image->backing.path, strerror(-r));
	return r < 0 ? 0 : (unsigned int)r;
}

static void
prepare_transfer(struct io_uring_sqe *sqe, int file, const struct chunk *chunk)
{
	unsigned int length = (unsigned int)chunk->length;

	/* One registered buffer, the arena; its number is 0. */
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
ring_queue(struct ring *ring, const struct backing *backing, struct chunk *chunk)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);
	int file = chunk->direct ? DIRECT_FILE : BUFFERED_FILE;

	assert(sqe);
	if (!ring->files_registered)
		file = chunk->direct ? backing->direct_fd : backing->fd;
	switch (chunk->op) {
	case CHUNK_READ:
	case CHUNK_WRITE:
		prepare_transfer(sqe, file, chunk);
		break;
	case CHUNK_SYNC:
		io_uring_prep_fsync(sqe, file, IORING_FSYNC_DATASYNC);
		break;
	case CHUNK_ALLOCATE:
		io_uring_prep_fallocate(sqe, file, chunk->mode, chunk->offset, chunk->length);
		break;
	}
	if (ring->files_registered)
		io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
	io_uring_sqe_set_data(sqe, chunk);
	ring->in_flight++;
}

/* Not io_uring_peek_cqe(): on a polled ring that enters the kernel to look for more. */
static struct io_uring_cqe *
next_completion(struct io_uring *uring)
{
	struct io_uring_cqe *cqe;
	unsigned int head;

	io_uring_for_each_cqe(uring, head, cqe)
		return cqe;
	return NULL;
}

int
ring_run(struct ring *ring, struct ioctx *ctx, unsigned int min)
{
	struct io_uring_cqe *cqe;
	int r = io_uring_submit_and_wait(&ring->uring, min);

	/* EBUSY: completions must be taken first. */
	if (r < 0 && r != -EINTR && r != -EAGAIN && r != -EBUSY)
		return r;
	/* One at a time: chunk_done() may queue another chunk on this ring. */
	while ((cqe = next_completion(&ring->uring)) != NULL) {
		struct chunk *chunk = io_uring_cqe_get_data(cqe);
		int result = cqe->res;

		io_uring_cqe_seen(&ring->uring, cqe);
		ring->in_flight--;
		chunk_done(ctx, chunk, result);
	}
	return 0;
}
