/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backend/ring.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long to wait, in microseconds, if the kernel takes nothing and no memory is left. */
#define NO_MEMORY_US 1000

_Static_assert(RING_FILES == 64, "struct ring has a bit for each");

int
ring_init(struct ring *ring, unsigned int entries, unsigned int in_flight, unsigned int flags,
	  unsigned int files)
{
	/* Our thread enters the kernel anyway to wait, so completions need not interrupt it (Linux
	 * 5.19). */
	struct io_uring_params params = {
		.flags = flags | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_CQSIZE,
		.cq_entries = in_flight > 2 * entries ? in_flight : 2 * entries,
	};
	int none[RING_FILES];
	int r;

	assert(files <= RING_FILES);
	memset(ring, 0, sizeof(*ring));
	ring->aside_tail = &ring->aside;
	r = io_uring_queue_init_params(entries, &ring->uring, &params);
	if (r == -EINVAL) {
		params = (struct io_uring_params){
			.flags = flags | IORING_SETUP_CQSIZE,
			.cq_entries = params.cq_entries,
		};
		r = io_uring_queue_init_params(entries, &ring->uring, &params);
	}
	if (r < 0)
		return r;
	memset(none, -1, sizeof(none));
	if (files && io_uring_register_files(&ring->uring, none, files) == 0)
		ring->file_limit = files;
	return 0;
}

void
ring_fini(struct ring *ring)
{
	assert(ring->in_flight == 0);
	/* Unregister the files at once. The kernel frees a ring later, and until then its files
	 * would keep their file system busy, which somebody may want to unmount. */
	if (ring->file_limit)
		io_uring_unregister_files(&ring->uring);
	io_uring_queue_exit(&ring->uring);
}

static uint64_t
places(unsigned int first, unsigned int count)
{
	assert(count > 0 && first + count <= RING_FILES);
	return UINT64_MAX >> (RING_FILES - count) << first;
}

int
ring_add_files(struct ring *ring, const int *fds, unsigned int count)
{
	unsigned int first = 0;

	while (first + count <= ring->file_limit && ring->files & places(first, count))
		first++;
	if (first + count > ring->file_limit)
		return -1;
	if (io_uring_register_files_update(&ring->uring, first, (int *)fds, count) < 0)
		return -1;
	ring->files |= places(first, count);
	return (int)first;
}

void
ring_remove_files(struct ring *ring, int first, unsigned int count)
{
	int none[RING_FILES];

	memset(none, -1, sizeof(none));
	if (first < 0)
		return;
	io_uring_register_files_update(&ring->uring, (unsigned int)first, none, count);
	ring->files &= ~places((unsigned int)first, count);
}

/* Returns a free SQE of the ring, or NULL if the kernel takes nothing now, or if SQEs that were set
 * aside must go first. */
static struct io_uring_sqe *
place(struct ring *ring)
{
	struct io_uring_sqe *sqe = ring->aside ? NULL : io_uring_get_sqe(&ring->uring);

	if (sqe || ring->aside)
		return sqe;
	io_uring_submit(&ring->uring);
	return io_uring_get_sqe(&ring->uring);
}

struct io_uring_sqe *
ring_queue(struct ring *ring)
{
	struct io_uring_sqe *sqe = place(ring);

	ring->in_flight++;
	while (!sqe) {
		struct ring_aside *aside = calloc(1, sizeof(*aside));

		if (aside) {
			*ring->aside_tail = aside;
			ring->aside_tail = &aside->next;
			return &aside->sqe;
		}
		usleep(NO_MEMORY_US);
		ring_submit(ring);
		sqe = place(ring);
	}
	return sqe;
}

static void
move_aside_in(struct ring *ring)
{
	struct io_uring_sqe *sqe;

	while (ring->aside && (sqe = io_uring_get_sqe(&ring->uring)) != NULL) {
		struct ring_aside *aside = ring->aside;

		*sqe = aside->sqe;
		ring->aside = aside->next;
		if (!ring->aside)
			ring->aside_tail = &ring->aside;
		free(aside);
	}
}

/* Moves the SQEs that were set aside into the ring. Returns false if some found no place: the
 * kernel must be asked again. */
static bool
take_aside(struct ring *ring)
{
	move_aside_in(ring);
	while (ring->aside && io_uring_submit(&ring->uring) > 0)
		move_aside_in(ring);
	return !ring->aside;
}

/* With EBUSY, the kernel wants us to take completions first. */
static bool
is_harmless(int err)
{
	return err == -EINTR || err == -EAGAIN || err == -EBUSY;
}

int
ring_submit(struct ring *ring)
{
	int r;

	take_aside(ring);
	r = io_uring_submit(&ring->uring);
	return r < 0 && !is_harmless(r) ? r : 0;
}

/* Does not use io_uring_peek_cqe(), which enters the kernel on a polled ring to look for more. */
static struct io_uring_cqe *
next_completion(struct io_uring *uring)
{
	struct io_uring_cqe *cqe;
	unsigned int head;

	io_uring_for_each_cqe(uring, head, cqe) return cqe;
	return NULL;
}

/* Takes one completion at a time, because done() may queue more on this ring. */
static void
complete_all(struct ring *ring)
{
	struct io_uring_cqe *cqe;

	while ((cqe = next_completion(&ring->uring)) != NULL) {
		struct completion *completion = io_uring_cqe_get_data(cqe);
		int result = cqe->res;

		bool nobodys = cqe->user_data == LIBURING_UDATA_TIMEOUT;

		io_uring_cqe_seen(&ring->uring, cqe);
		/* Before Linux 5.11 the library's time limit is an operation, too, with a
		 * completion of its own. */
		if (nobodys)
			continue;
		ring->in_flight--;
		completion->done(completion, result);
	}
}

int
ring_run(struct ring *ring, unsigned int min)
{
	int r;

	if (min > ring->in_flight)
		min = ring->in_flight;
	/* SQEs that are still set aside can't complete, so do not wait for them. */
	if (!take_aside(ring))
		min = 0;
	r = io_uring_submit_and_wait(&ring->uring, min);
	complete_all(ring);
	return r < 0 && !is_harmless(r) ? r : 0;
}

int
ring_run_for(struct ring *ring, int timeout_ms)
{
	struct __kernel_timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
	struct io_uring_cqe *cqe;
	int r;

	if (timeout_ms < 0)
		return ring_run(ring, 1);
	if (!take_aside(ring) || timeout_ms == 0)
		r = io_uring_submit_and_get_events(&ring->uring);
	else
		r = io_uring_submit_and_wait_timeout(&ring->uring, &cqe, 1, &timeout, NULL);
	complete_all(ring);
	return r < 0 && r != -ETIME && !is_harmless(r) ? r : 0;
}

bool
ring_is_ready(struct ring *ring)
{
	struct io_uring *uring = &ring->uring;

	if (io_uring_cq_ready(uring) > 0 || ring->aside)
		return true;
	/* Some completions appear only when our thread enters the kernel. */
	if (uring->flags & IORING_SETUP_TASKRUN_FLAG)
		return IO_URING_READ_ONCE(*uring->sq.kflags) &
		       (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW);
	io_uring_get_events(uring);
	return io_uring_cq_ready(uring) > 0;
}

bool
ring_has_result(struct ring *ring, const struct completion *completion, int *result)
{
	struct io_uring_cqe *cqe;
	unsigned int head;

	io_uring_for_each_cqe(&ring->uring, head, cqe)
	{
		if (io_uring_cqe_get_data(cqe) != completion)
			continue;
		*result = cqe->res;
		return true;
	}
	return false;
}
