/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backend/ring.h"

#include "engine/backend/restriction.h"

#include "common/log.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long to wait, in microseconds, if the kernel takes nothing and no memory is left. */
#define NO_MEMORY_US 1000

/* What a ring gets instead of RING_FILES if that is more than the process may open. */
#define FEW_FILES 64

/* Registers a table of empty places. If the kernel takes none, the ring has none. */
static void
ring_offer_files(struct ring *ring, unsigned int count)
{
	int none[RING_FILES];

	memset(none, -1, sizeof(none));
	if (io_uring_register_files(&ring->uring, none, count) < 0) {
		if (count <= FEW_FILES ||
		    io_uring_register_files(&ring->uring, none, FEW_FILES) < 0)
			return;
		count = FEW_FILES;
	}
	if (places_init(&ring->files, count) < 0)
		io_uring_unregister_files(&ring->uring);
}

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
	int r;

	assert(files <= RING_FILES);
	memset(ring, 0, sizeof(*ring));
	ring->aside_tail = &ring->aside;
	r = restricted_uring_init(entries, &ring->uring, &params);
	if (r == -EINVAL) {
		params = (struct io_uring_params){
			.flags = flags | IORING_SETUP_CQSIZE,
			.cq_entries = params.cq_entries,
		};
		r = restricted_uring_init(entries, &ring->uring, &params);
	}
	if (r < 0)
		return r;
	if (files)
		ring_offer_files(ring, files);
	return 0;
}

void
ring_fini(struct ring *ring)
{
	assert(ring->in_flight == 0);
	/* Unregister the files at once. The kernel frees a ring later, and until then its files
	 * would keep their file system busy, which somebody may want to unmount. */
	if (ring->files.count)
		io_uring_unregister_files(&ring->uring);
	io_uring_queue_exit(&ring->uring);
	places_fini(&ring->files);
	places_fini(&ring->memory);
}

int
ring_add_files(struct ring *ring, const int *fds, unsigned int count)
{
	int first = places_take(&ring->files, count);

	if (first < 0)
		return -1;
	if (io_uring_register_files_update(&ring->uring, (unsigned int)first, (int *)fds, count) >=
	    0)
		return first;
	places_give(&ring->files, first, count);
	return -1;
}

void
ring_remove_files(struct ring *ring, int first, unsigned int count)
{
	static int none = -1;

	if (first < 0)
		return;
	for (unsigned int i = 0; i < count; i++)
		io_uring_register_files_update(&ring->uring, (unsigned int)first + i, &none, 1);
	places_give(&ring->files, first, count);
}

void
ring_memory_refused(struct ring *ring, int err)
{
	static struct log_limit once = LOG_LIMIT_INIT(1, UINT32_MAX);
	const char *reason = "out of memory", *none = NULL;

	if (err == -EINVAL)
		reason = "the kernel can't add to registered memory (Linux 5.13 can)";
	else if (err == -ENOMEM)
		reason = "no more memory may be locked (see ulimit -l)";
	else if (err == -ENOSPC)
		reason = "the ring's table is full";
	else if (err == -EPERM || err == -EACCES)
		reason = "the kernel forbids it (a seccomp filter?)";
	/* The first reason explains the others. */
	atomic_compare_exchange_strong(&ring->unregistered, &none, reason);
	if (log_limit_pass(&once, NULL))
		log_warning(
			"some buffers are not registered with io_uring: %s; requests cost a little more",
			reason);
}

void
ring_offer_memory(struct ring *ring)
{
	int r = io_uring_register_buffers_sparse(&ring->uring, RING_MEMORY);

	/* From Linux 5.13 to 5.18, only as many empty pieces as the table has places make one. */
	if (r == -EINVAL) {
		struct iovec *none = calloc(RING_MEMORY, sizeof(*none));

		r = none ? io_uring_register_buffers_tags(&ring->uring, none, NULL, RING_MEMORY)
			 : -ENOMEM;
		free(none);
	}
	if (r == 0)
		r = places_init(&ring->memory, RING_MEMORY);
	if (r < 0)
		ring_memory_refused(ring, r);
}

/* Bit 0 of the user data of a completion that belongs to no operation of ours; completions are
 * aligned. */
#define NOBODYS 1u

/* The kernel tells with this user data that it has released registered memory: the pages' length in
 * bytes, and NOBODYS. */
static uint64_t
ring_release_of(size_t length)
{
	return (((uint64_t)length + 4095) & ~UINT64_C(4095)) | NOBODYS;
}

static size_t
ring_released_by(uint64_t user_data)
{
	/* Before Linux 5.11 the library's time limit is an operation, too, with a completion of its
	 * own. */
	return user_data == LIBURING_UDATA_TIMEOUT ? 0 : (size_t)(user_data & ~UINT64_C(4095));
}

size_t
ring_held(const struct ring *ring)
{
	const struct io_uring *uring = &ring->uring;
	size_t held = ring->held;
	struct io_uring_cqe *cqe;
	unsigned int head;

	io_uring_for_each_cqe(uring, head, cqe)
	{
		if (cqe->user_data & NOBODYS)
			held -= ring_released_by(cqe->user_data);
	}
	return held;
}

/* Fills a place, or empties it: `iov` is then zero, and so is `tag`, the user data for the end of
 * the registration. Returns 0 or -errno. */
static int
ring_set_memory(struct ring *ring, int place, const struct iovec *iov, __u64 tag)
{
	int r = io_uring_register_buffers_update_tag(&ring->uring, (unsigned int)place, iov, &tag,
						     1);

	return r < 0 ? r : 0;
}

int
ring_add_memory(struct ring *ring, void *memory, size_t length)
{
	const struct iovec iov = {memory, length};
	int r = -ENOSPC, place;

	if (!ring->memory.count || ring->memory_full)
		return REGISTERED_NOWHERE;
	place = places_take(&ring->memory, 1);
	if (place >= 0) {
		r = ring_set_memory(ring, place, &iov, ring_release_of(length));
		if (r == 0)
			return place;
		places_give(&ring->memory, place, 1);
	}
	ring->memory_full = true;
	ring_memory_refused(ring, r);
	return REGISTERED_NOWHERE;
}

void
ring_remove_memory(struct ring *ring, int place, size_t length)
{
	static const struct iovec none;

	if (place < 0)
		return;
	ring->held += ring_released_by(ring_release_of(length));
	/* If it fails, the memory is held until its place is filled again. */
	ring_set_memory(ring, place, &none, 0);
	places_give(&ring->memory, place, 1);
	ring->memory_full = false;
}

/* Returns a free SQE of the ring, or NULL if the kernel takes nothing now, or if SQEs that were set
 * aside must go first. */
static struct io_uring_sqe *
ring_place(struct ring *ring)
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
	struct io_uring_sqe *sqe = ring_place(ring);

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
		sqe = ring_place(ring);
	}
	return sqe;
}

static void
ring_move_aside_in(struct ring *ring)
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
ring_take_aside(struct ring *ring)
{
	ring_move_aside_in(ring);
	while (ring->aside && io_uring_submit(&ring->uring) > 0)
		ring_move_aside_in(ring);
	return !ring->aside;
}

/* With EBUSY, the kernel wants us to take completions first. */
static bool
ring_is_harmless(int err)
{
	return err == -EINTR || err == -EAGAIN || err == -EBUSY;
}

int
ring_submit(struct ring *ring)
{
	int r;

	ring_take_aside(ring);
	r = io_uring_submit(&ring->uring);
	return r < 0 && !ring_is_harmless(r) ? r : 0;
}

/* Does not use io_uring_peek_cqe(), which enters the kernel on a polled ring to look for more. */
static struct io_uring_cqe *
ring_next_completion(struct io_uring *uring)
{
	struct io_uring_cqe *cqe;
	unsigned int head;

	io_uring_for_each_cqe(uring, head, cqe) return cqe;
	return NULL;
}

/* Not inline, so that it takes no instructions of other completions. */
static __attribute__((noinline)) void
memory_released(struct ring *ring, uint64_t user_data)
{
	ring->held -= ring_released_by(user_data);
}

/* Takes one completion at a time, because done() may queue more on this ring. */
void
ring_complete_all(struct ring *ring)
{
	struct io_uring_cqe *cqe;

	while ((cqe = ring_next_completion(&ring->uring)) != NULL) {
		struct completion *completion = io_uring_cqe_get_data(cqe);
		uint64_t user_data = cqe->user_data;
		int result = cqe->res;

		io_uring_cqe_seen(&ring->uring, cqe);
		if (user_data & NOBODYS) {
			memory_released(ring, user_data);
			continue;
		}
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
	if (!ring_take_aside(ring))
		min = 0;
	r = io_uring_submit_and_wait(&ring->uring, min);
	ring_complete_all(ring);
	return r < 0 && !ring_is_harmless(r) ? r : 0;
}

struct completion *
ring_completion(const struct io_uring_cqe *cqe)
{
	return cqe->user_data & NOBODYS ? NULL : io_uring_cqe_get_data(cqe);
}

int
ring_enter_for(struct ring *ring, int timeout_ms)
{
	struct __kernel_timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
	struct io_uring_cqe *cqe;
	int r;

	/* SQEs that are still set aside can't complete, so do not wait for them. */
	if (!ring_take_aside(ring) || timeout_ms == 0)
		r = io_uring_submit_and_get_events(&ring->uring);
	else if (timeout_ms < 0)
		r = io_uring_submit_and_wait(&ring->uring, ring->in_flight > 0);
	else
		r = io_uring_submit_and_wait_timeout(&ring->uring, &cqe, 1, &timeout, NULL);
	return r < 0 && r != -ETIME && !ring_is_harmless(r) ? r : 0;
}

int
ring_run_for(struct ring *ring, int timeout_ms)
{
	int r = ring_enter_for(ring, timeout_ms);

	ring_complete_all(ring);
	return r;
}

bool
ring_tells_all(const struct ring *ring)
{
	return !ring->aside && io_uring_sq_ready(&ring->uring) == 0 &&
	       !(IO_URING_READ_ONCE(*ring->uring.sq.kflags) & IORING_SQ_CQ_OVERFLOW);
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
