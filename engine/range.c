/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/range.h"

#include <assert.h>
#include <stddef.h>

void
range_lock_init(struct range_lock *lock)
{
	atomic_init(&lock->contended, 0);
	pthread_mutex_init(&lock->mutex, NULL);
	lock->queue = NULL;
	lock->tracks = NULL;
}

void
range_lock_fini(struct range_lock *lock)
{
	assert(!lock->queue && !lock->tracks);
	pthread_mutex_destroy(&lock->mutex);
}

void
range_track_add(struct range_lock *lock, struct range_track *track, struct range_slot *slots,
		unsigned int count)
{
	track->slots = slots;
	track->count = count;
	pthread_mutex_lock(&lock->mutex);
	track->next = lock->tracks;
	lock->tracks = track;
	pthread_mutex_unlock(&lock->mutex);
}

void
range_track_remove(struct range_lock *lock, struct range_track *track)
{
	struct range_track **at;

	pthread_mutex_lock(&lock->mutex);
	for (at = &lock->tracks; *at != track; at = &(*at)->next)
		assert(*at);
	*at = track->next;
	pthread_mutex_unlock(&lock->mutex);
}

static bool
overlap(const struct range *range, uint64_t start, uint64_t end)
{
	return range->start < end && start < range->end;
}

static bool
conflict(const struct range *a, const struct range *b)
{
	return (a->exclusive || b->exclusive) && overlap(a, b->start, b->end);
}

/* Whether a plain write that went the short way is still under way in this range. A slot is filled
 * end last and emptied by its end, so a start that doesn't belong to it is never believed for
 * long: at worst we wait for a write that isn't in our way. */
static bool
published_overlap(struct range_lock *lock, const struct range *range)
{
	for (const struct range_track *track = lock->tracks; track; track = track->next) {
		for (unsigned int i = 0; i < track->count; i++) {
			uint64_t end = atomic_load(&track->slots[i].end);

			if (end != 0 && overlap(range, atomic_load(&track->slots[i].start), end))
				return true;
		}
	}
	return false;
}

/* mutex held; `range` is in the queue. */
static bool
may_hold(struct range_lock *lock, const struct range *range)
{
	for (const struct range *before = lock->queue; before != range; before = before->next) {
		if (conflict(before, range))
			return false;
	}
	return !range->exclusive || !published_overlap(lock, range);
}

/* mutex held. */
static void
grant_waiting(struct range_lock *lock)
{
	for (struct range *range = lock->queue; range; range = range->next) {
		if (range->held || !may_hold(lock, range))
			continue;
		range->held = true;
		range->granted(range);
	}
}

static void
publish(struct range *range, struct range_slot *slot)
{
	atomic_store_explicit(&slot->start, range->start, memory_order_relaxed);
	atomic_store(&slot->end, range->end); /* sequentially consistent: before we look */
	range->slot = slot;
}

static void
withdraw(struct range *range)
{
	atomic_store(&range->slot->end, 0); /* sequentially consistent, as above */
	range->slot = NULL;
}

/* mutex held. */
static void
enqueue(struct range_lock *lock, struct range *range)
{
	struct range **at = &lock->queue;

	while (*at)
		at = &(*at)->next;
	range->next = NULL;
	range->queued = true;
	*at = range;
	atomic_fetch_add(&lock->contended, 1); /* before we look through the slots */
}

static void
dequeue(struct range_lock *lock, struct range *range)
{
	struct range **at = &lock->queue;

	while (*at != range)
		at = &(*at)->next;
	*at = range->next;
	range->queued = false;
	atomic_fetch_sub(&lock->contended, 1);
}

/* mutex held. */
static bool
conflict_in_queue(const struct range_lock *lock, const struct range *range)
{
	for (const struct range *other = lock->queue; other; other = other->next) {
		if (conflict(other, range))
			return true;
	}
	return false;
}

/* The short way was barred, or isn't for this range. */
static bool
begin_queued(struct range_lock *lock, struct range *range)
{
	bool held = true;

	pthread_mutex_lock(&lock->mutex);
	if (range->exclusive || conflict_in_queue(lock, range)) {
		if (range->slot)
			withdraw(range);
		enqueue(lock, range);
		/* What we had published for a moment may have held somebody up. */
		held = range->held = may_hold(lock, range);
		grant_waiting(lock);
	}
	pthread_mutex_unlock(&lock->mutex);
	return held;
}

bool
range_begin(struct range_lock *lock, struct range *range, struct range_slot *slot)
{
	assert(range->end > range->start);
	range->held = range->queued = false;
	range->slot = NULL;
	if (!range->exclusive) {
		publish(range, slot);
		if (atomic_load(&lock->contended) == 0)
			return true;
	}
	return begin_queued(lock, range);
}

void
range_end(struct range_lock *lock, struct range *range)
{
	if (range->slot) {
		withdraw(range);
		if (atomic_load(&lock->contended) == 0)
			return;
	}
	pthread_mutex_lock(&lock->mutex);
	if (range->queued)
		dequeue(lock, range);
	range->held = false;
	grant_waiting(lock);
	pthread_mutex_unlock(&lock->mutex);
}
