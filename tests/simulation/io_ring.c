/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/io_ring.h"

#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

struct io_ring_mood io_ring_mood;

/* A completion that is not in the queue yet. */
struct io_late {
	struct io_uring_cqe cqe;
	struct io_late *next;
};

/* ---- completions */

static void
io_lates_add(struct io_lates *lates, const struct io_uring_cqe *cqe)
{
	struct io_late *late = calloc(1, sizeof(*late));

	memcpy(&late->cqe, cqe, sizeof(*cqe));
	if (!lates->first)
		lates->last = &lates->first;
	*lates->last = late;
	lates->last = &late->next;
}

static void
io_lates_drop_first(struct io_lates *lates)
{
	struct io_late *late = lates->first;

	lates->first = late->next;
	free(late);
}

unsigned int
io_ring_ready(const struct io_ring *ring)
{
	return ring->cq_tail - ring->cq_head;
}

unsigned int
io_ring_pending(const struct io_ring *ring)
{
	unsigned int count = io_ring_ready(ring);

	for (const struct io_late *late = ring->deferred.first; late; late = late->next)
		count++;
	return count + ring->due;
}

static bool
io_ring_put(struct io_ring *ring, const struct io_uring_cqe *cqe)
{
	if (io_ring_ready(ring) == ring->completions)
		return false;
	memcpy(&ring->cqes[ring->cq_tail % ring->completions], cqe, sizeof(*cqe));
	ring->cq_tail++;
	return true;
}

static void
io_ring_publish(struct io_ring *ring, const struct io_uring_cqe *cqe)
{
	if (!ring->overflow.first && io_ring_put(ring, cqe))
		return;
	io_lates_add(&ring->overflow, cqe);
	ring->sq_flags |= IORING_SQ_CQ_OVERFLOW;
}

static void
io_ring_ring(struct io_ring *ring)
{
	static const uint64_t one = 1;

	if (ring->event)
		ring->event->kind->write(ring->event, &one, sizeof(one));
}

void
io_ring_post(struct io_ring *ring, uint64_t user_data, int result)
{
	const struct io_uring_cqe cqe = {.user_data = user_data, .res = result};

	if (ring->flags & IORING_SETUP_DEFER_TASKRUN && !ring->submits) {
		io_lates_add(&ring->deferred, &cqe);
		if (ring->flags & IORING_SETUP_TASKRUN_FLAG)
			ring->sq_flags |= IORING_SQ_TASKRUN;
	} else {
		io_ring_publish(ring, &cqe);
	}
	io_ring_ring(ring);
}

void
io_ring_note_due(struct io_ring *ring)
{
	ring->due++;
	if (ring->flags & IORING_SETUP_TASKRUN_FLAG)
		ring->sq_flags |= IORING_SQ_TASKRUN;
	io_ring_ring(ring);
}

void
io_ring_flush(struct io_ring *ring)
{
	while (ring->overflow.first && io_ring_put(ring, &ring->overflow.first->cqe))
		io_lates_drop_first(&ring->overflow);
	if (!ring->overflow.first)
		ring->sq_flags &= ~IORING_SQ_CQ_OVERFLOW;
	while (ring->deferred.first) {
		io_ring_publish(ring, &ring->deferred.first->cqe);
		io_lates_drop_first(&ring->deferred);
	}
	ring->sq_flags &= ~IORING_SQ_TASKRUN;
}

/* ---- the descriptor */

static short
io_ring_events(struct description *description)
{
	return io_ring_ready((struct io_ring *)description) ? POLLIN : 0;
}

void
io_ring_forget_files(struct io_ring *ring)
{
	for (unsigned int i = 0; i < ring->file_count; i++)
		if (ring->files[i])
			descriptor_put(ring->files[i]);
	free(ring->files);
	ring->files = NULL;
	ring->file_count = 0;
}

static void
io_ring_free(struct description *description)
{
	struct io_ring *ring = (struct io_ring *)description;

	io_ring_forget_files(ring);
	for (unsigned int i = 0; i < ring->buffer_count; i++)
		free(ring->buffers[i]);
	free(ring->buffers);
	if (ring->event)
		descriptor_put(ring->event);
	while (ring->overflow.first)
		io_lates_drop_first(&ring->overflow);
	while (ring->deferred.first)
		io_lates_drop_first(&ring->deferred);
	free(ring->sqes);
	free(ring->cqes);
	free(ring);
}

static const struct description_kind kind_io_ring = {
	.name = "a ring",
	.events = io_ring_events,
	.free = io_ring_free,
};

struct io_ring *
io_ring_of(const struct io_uring *uring)
{
	struct io_ring *ring = (struct io_ring *)descriptor_find(uring->ring_fd, &kind_io_ring);

	if (!ring)
		trace_fail("a ring is used that is not there");
	return ring;
}

static unsigned int
power_of_two(unsigned int least)
{
	unsigned int n = 1;

	while (n < least)
		n *= 2;
	return n;
}

struct io_ring *
io_ring_new(unsigned int flags, unsigned int entries, unsigned int completions)
{
	struct io_ring *ring = calloc(1, sizeof(*ring));

	ring->description = (struct description){.kind = &kind_io_ring};
	ring->flags = flags;
	ring->maker = scheduler_self()->id;
	ring->entries = power_of_two(entries);
	ring->completions =
		power_of_two(completions > 2 * ring->entries ? completions : 2 * ring->entries);
	ring->sqes = calloc(ring->entries, sizeof(*ring->sqes));
	ring->cqes = calloc(ring->completions, sizeof(*ring->cqes));
	return ring;
}
