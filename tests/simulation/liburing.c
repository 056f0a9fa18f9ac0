/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of liburing that are not inline. */
#include "tests/simulation/call.h"
#include "tests/simulation/chance.h"
#include "tests/simulation/descriptor.h"
#include "tests/simulation/io_op.h"
#include "tests/simulation/io_ring.h"
#include "tests/simulation/memory.h"
#include "tests/simulation/process.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

/* Of a mood's small queues. */
#define FEW_ENTRIES     4u
#define FEW_COMPLETIONS 8u

/* SQEs of a large ring. */
#define MANY_ENTRIES 256u

/* How many files a process may have open (getrlimit() in surroundings.c). */
#define FILES_MAX 1024u

/* ---- entering the kernel */

static unsigned int
io_ring_queued(struct io_ring *ring, struct io_uring *uring)
{
	uring->sq.sqe_head = ring->sq_tail = uring->sq.sqe_tail;
	return ring->sq_tail - ring->sq_head;
}

/* Returns how many were taken, or -errno. */
static int
io_ring_take(struct io_ring *ring, unsigned int count)
{
	unsigned int taken = 0;

	if (!count)
		return 0;
	/* Linux before 5.19: it tries to find room first. */
	if (ring->overflow.first && io_ring_mood.busy) {
		io_ring_flush(ring);
		if (ring->overflow.first)
			return -EBUSY;
	}
	if (chance_once_in(io_ring_mood.refuse)) {
		count = (unsigned int)chance_below(count);
		if (!count)
			return -EAGAIN;
	}
	ring->submits = true;
	for (; taken < count; taken++) {
		io_op_begin(ring, &ring->sqes[ring->sq_head % ring->entries]);
		ring->sq_head++;
		if (chance_once_in(8))
			scheduler_yield();
	}
	ring->submits = false;
	return (int)taken;
}

/* What the ring's thread does when it asks for completions. */
static void
io_ring_show_all(struct io_ring *ring)
{
	io_ops_go_on(ring);
	io_ring_flush(ring);
}

struct io_wait {
	struct io_ring *ring;
	unsigned int min;
};

static bool
io_ring_has_enough(void *data)
{
	const struct io_wait *wait = data;
	const struct io_ring *ring = wait->ring;

	return ring->overflow.first || io_ring_pending(ring) >= wait->min;
}

/* Returns 0, -EINTR, or -ETIME. */
static int
io_ring_await(struct io_ring *ring, unsigned int min, int64_t until)
{
	struct io_wait wait = {ring, min};

	io_ring_show_all(ring);
	if (io_ring_ready(ring) >= min)
		return 0;
	if (chance_once_in(500))
		return -EINTR;
	do {
		if (!scheduler_wait("events", io_ring_has_enough, &wait, until))
			return -ETIME;
		io_ring_show_all(ring);
	} while (io_ring_ready(ring) < min && !ring->overflow.first);
	return 0;
}

/* io_uring_enter(). `gets`: IORING_ENTER_GETEVENTS. */
static int
io_ring_enter(struct io_ring *ring, unsigned int count, bool gets, unsigned int min, int64_t until)
{
	int taken, r;

	if (ring->flags & IORING_SETUP_SINGLE_ISSUER && ring->maker != scheduler_self()->id)
		trace_fail("%s uses the ring of another thread", scheduler_name());
	taken = io_ring_take(ring, count);
	if (chance_once_in(8))
		scheduler_yield();
	if (taken < 0 || (unsigned int)taken < count || !gets)
		return taken;
	if (min > ring->completions)
		min = ring->completions;
	r = io_ring_await(ring, min, until);
	return taken ? taken : r;
}

static bool
io_ring_must_flush(const struct io_ring *ring)
{
	return ring->sq_flags & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN);
}

CALL(int, io_uring_submit, struct io_uring *uring)
{
	struct io_ring *ring = io_ring_of(uring);
	const unsigned int count = io_ring_queued(ring, uring);
	const bool gets = io_ring_must_flush(ring);

	return count || gets ? io_ring_enter(ring, count, gets, 0, FOR_EVER) : 0;
}

CALL(int, io_uring_submit_and_wait, struct io_uring *uring, unsigned int min)
{
	struct io_ring *ring = io_ring_of(uring);
	const unsigned int count = io_ring_queued(ring, uring);
	const bool gets = min || io_ring_must_flush(ring);

	return count || gets ? io_ring_enter(ring, count, gets, min, FOR_EVER) : 0;
}

CALL(int, io_uring_submit_and_get_events, struct io_uring *uring)
{
	struct io_ring *ring = io_ring_of(uring);

	return io_ring_enter(ring, io_ring_queued(ring, uring), true, 0, FOR_EVER);
}

CALL(int, io_uring_get_events, struct io_uring *uring)
{
	return io_ring_enter(io_ring_of(uring), 0, true, 0, FOR_EVER);
}

/* As liburing does it: a completion that is there makes waiting unnecessary, and the result of a
 * wait that took SQEs is only seen by asking again. */
CALL(int, io_uring_submit_and_wait_timeout, struct io_uring *uring, struct io_uring_cqe **cqe,
     unsigned int min, struct __kernel_timespec *limit, sigset_t *mask)
{
	struct io_ring *ring = io_ring_of(uring);
	const int64_t until = scheduler_now() + limit->tv_sec * SECOND + limit->tv_nsec;
	int r = io_ring_enter(ring, io_ring_queued(ring, uring), true, min, until);

	(void)mask;
	*cqe = NULL;
	if (r >= 0 && io_ring_ready(ring) < min)
		return -ETIME;
	return r;
}

CALL(int, __io_uring_get_cqe, struct io_uring *uring, struct io_uring_cqe **cqe,
     unsigned int submit, unsigned int min, sigset_t *mask)
{
	struct io_ring *ring = io_ring_of(uring);
	int r = 0;

	(void)submit;
	(void)mask;
	while (r == 0 && io_ring_ready(ring) < min)
		r = io_ring_enter(ring, 0, true, min, FOR_EVER);
	*cqe = io_ring_ready(ring) ? &ring->cqes[ring->cq_head % ring->completions] : NULL;
	return r;
}

/* ---- set-up */

static int
io_ring_check_flags(unsigned int flags)
{
	const unsigned int known = IORING_SETUP_CQSIZE | IORING_SETUP_SINGLE_ISSUER |
				   IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
				   (io_ring_mood.old ? 0 : IORING_SETUP_COOP_TASKRUN);

	if (io_ring_mood.absent)
		return -ENOSYS;
	if (flags & ~known)
		return -EINVAL;
	if (flags & IORING_SETUP_DEFER_TASKRUN &&
	    (!io_ring_mood.defers || !(flags & IORING_SETUP_SINGLE_ISSUER)))
		return -EINVAL;
	return chance_once_in(io_ring_mood.refuse) ? -ENOMEM : 0;
}

/* What both sides share, as the product sees it. */
static void
io_ring_show(struct io_ring *ring, struct io_uring *uring)
{
	memset(uring, 0, sizeof(*uring));
	uring->sq.khead = &ring->sq_head;
	uring->sq.ktail = &ring->sq_tail;
	uring->sq.kflags = &ring->sq_flags;
	uring->sq.sqes = ring->sqes;
	uring->sq.ring_entries = ring->entries;
	uring->sq.ring_mask = ring->entries - 1;
	uring->cq.khead = &ring->cq_head;
	uring->cq.ktail = &ring->cq_tail;
	uring->cq.cqes = ring->cqes;
	uring->cq.ring_entries = ring->completions;
	uring->cq.ring_mask = ring->completions - 1;
	uring->flags = ring->flags;
	uring->features = io_ring_mood.defers ? IORING_FEAT_CQE_SKIP : 0;
}

CALL(int, io_uring_queue_init_params, unsigned int entries, struct io_uring *uring,
     struct io_uring_params *parameters)
{
	unsigned int completions = parameters->cq_entries;
	int r = io_ring_check_flags(parameters->flags);
	struct io_ring *ring;

	if (r < 0)
		return r;
	if (io_ring_mood.small && entries >= MANY_ENTRIES)
		return -ENOMEM;
	if (io_ring_mood.few_places && entries > FEW_ENTRIES) {
		entries = FEW_ENTRIES;
		completions = FEW_COMPLETIONS;
	}
	ring = io_ring_new(parameters->flags, entries, completions);
	io_ring_show(ring, uring);
	r = descriptor_open(&ring->description);
	uring->ring_fd = uring->enter_ring_fd = r;
	return r < 0 ? r : 0;
}

CALL(void, io_uring_queue_exit, struct io_uring *uring)
{
	io_ops_end(io_ring_of(uring));
	descriptor_close(process_self(), uring->ring_fd);
}

CALL(struct io_uring_probe *, io_uring_get_probe_ring, struct io_uring *uring)
{
	const size_t size =
		sizeof(struct io_uring_probe) + IORING_OP_LAST * sizeof(struct io_uring_probe_op);
	struct io_uring_probe *probe = memory_take(size);

	(void)uring;
	if (!probe)
		return NULL;
	memset(probe, 0, size);
	probe->last_op = IORING_OP_LAST - 1;
	probe->ops_len = IORING_OP_LAST;
	for (unsigned int i = 0; i < IORING_OP_LAST; i++)
		probe->ops[i] = (struct io_uring_probe_op){.op = (uint8_t)i,
							   .flags = IO_URING_OP_SUPPORTED};
	return probe;
}

CALL(void, io_uring_free_probe, struct io_uring_probe *probe)
{
	memory_give(probe);
}

/* ---- registered files */

static int
io_ring_set_file(struct io_ring *ring, unsigned int place, int fd)
{
	struct description *file = fd < 0 ? NULL : descriptor_find(fd, NULL);

	if (place >= ring->file_count)
		return -EINVAL;
	if (fd >= 0 && !file)
		return -EBADF;
	if (file)
		file->users++;
	if (ring->files[place])
		descriptor_put(ring->files[place]);
	ring->files[place] = file;
	return 0;
}

CALL(int, io_uring_register_files_update, struct io_uring *uring, unsigned int first,
     const int *fds, unsigned int count)
{
	struct io_ring *ring = io_ring_of(uring);

	for (unsigned int i = 0; i < count; i++) {
		const int r = io_ring_set_file(ring, first + i, fds[i]);

		if (r < 0)
			return i ? (int)i : r;
	}
	return (int)count;
}

CALL(int, io_uring_register_files, struct io_uring *uring, const int *fds, unsigned int count)
{
	struct io_ring *ring = io_ring_of(uring);
	int r;

	if (ring->files)
		return -EBUSY;
	if (count > FILES_MAX && !io_ring_mood.many_files)
		return -EMFILE;
	if (chance_once_in(io_ring_mood.refuse))
		return -ENOMEM;
	ring->files = calloc(count, sizeof(ring->files[0]));
	ring->file_count = count;
	r = world_io_uring_register_files_update(uring, 0, fds, count);
	return r < 0 ? r : 0;
}

CALL(int, io_uring_unregister_files, struct io_uring *uring)
{
	struct io_ring *ring = io_ring_of(uring);

	if (!ring->files)
		return -ENXIO;
	io_ring_forget_files(ring);
	return 0;
}

/* ---- registered memory */

static int
io_ring_make_buffers(struct io_ring *ring, unsigned int count)
{
	if (ring->buffers)
		return -EBUSY;
	if (chance_once_in(io_ring_mood.refuse))
		return -ENOMEM;
	ring->buffers = calloc(count, sizeof(ring->buffers[0]));
	ring->buffer_count = count;
	return 0;
}

static void
io_ring_set_buffer(struct io_ring *ring, unsigned int place, const struct iovec *iov, uint64_t tag)
{
	struct io_buffer *before = ring->buffers[place];

	ring->buffers[place] = NULL;
	if (before)
		io_buffer_put(ring, before);
	if (!iov->iov_base)
		return;
	ring->buffers[place] = calloc(1, sizeof(struct io_buffer));
	*ring->buffers[place] = (struct io_buffer){iov->iov_base, iov->iov_len, tag, 1};
}

CALL(int, io_uring_register_buffers, struct io_uring *uring, const struct iovec *iov,
     unsigned int count)
{
	struct io_ring *ring = io_ring_of(uring);
	const int r = io_ring_make_buffers(ring, count);

	for (unsigned int i = 0; r == 0 && i < count; i++)
		io_ring_set_buffer(ring, i, &iov[i], 0);
	return r;
}

CALL(int, io_uring_register_buffers_sparse, struct io_uring *uring, unsigned int count)
{
	return io_ring_mood.old ? -EINVAL : io_ring_make_buffers(io_ring_of(uring), count);
}

CALL(int, io_uring_register_buffers_tags, struct io_uring *uring, const struct iovec *iov,
     const __u64 *tags, unsigned int count)
{
	(void)iov;
	(void)tags;
	return io_ring_make_buffers(io_ring_of(uring), count);
}

CALL(int, io_uring_register_buffers_update_tag, struct io_uring *uring, unsigned int first,
     const struct iovec *iov, const __u64 *tags, unsigned int count)
{
	struct io_ring *ring = io_ring_of(uring);

	if (first + count > ring->buffer_count)
		return -EINVAL;
	for (unsigned int i = 0; i < count; i++) {
		if (iov[i].iov_base && chance_once_in(io_ring_mood.refuse))
			return i ? (int)i : -ENOMEM;
		io_ring_set_buffer(ring, first + i, &iov[i], tags[i]);
	}
	return (int)count;
}

/* ---- others */

CALL(int, io_uring_register_eventfd, struct io_uring *uring, int fd)
{
	struct io_ring *ring = io_ring_of(uring);

	ring->event = descriptor_find(fd, NULL);
	if (!ring->event)
		return -EBADF;
	ring->event->users++;
	return 0;
}
