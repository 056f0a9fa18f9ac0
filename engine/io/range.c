/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/io/range.h"

#include <assert.h>
#include <stddef.h>

void
range_lock_init(struct range_lock *lock)
{
	atomic_init(&lock->contended, 0);
	for (unsigned int i = 0; i < RANGE_COUNTS; i++)
		atomic_init(&lock->counts[i], 0);
	pthread_mutex_init(&lock->mutex, NULL);
	lock->queue = NULL;
	lock->tracks = NULL;
	lock->observers = NULL;
}

void
range_lock_fini(struct range_lock *lock)
{
	assert(!lock->queue && !lock->tracks && !lock->observers);
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
range_overlaps(const struct range *range, uint64_t start, uint64_t end)
{
	return range->start < end && start < range->end;
}

/* Returns whether another published range overlaps this one. A slot is filled by storing its end
 * last, and emptied by its end, so we never believe a start of another range for long: at worst we
 * wait for a write that is not in our way. */
static bool
range_overlaps_published(struct range_lock *lock, const struct range *range)
{
	for (const struct range_track *track = lock->tracks; track; track = track->next) {
		for (unsigned int i = 0; i < track->count; i++) {
			const struct range_slot *slot = &track->slots[i];
			uint64_t end = atomic_load(&slot->end);

			if (end != 0 && slot != range->slot &&
			    range_overlaps(range, atomic_load(&slot->start), end))
				return true;
		}
	}
	return false;
}

/* Returns whether a range in the queue before `last` (NULL: anywhere) overlaps this one. The caller
 * holds the mutex. */
static bool
range_overlaps_queued(const struct range_lock *lock, const struct range *range,
		      const struct range *last)
{
	for (const struct range *before = lock->queue; before != last; before = before->next) {
		if (range_overlaps(range, before->start, before->end))
			return true;
	}
	return false;
}

/* The caller holds the mutex, and `range` is in the queue. */
static bool
range_may_hold(struct range_lock *lock, const struct range *range)
{
	return !range_overlaps_queued(lock, range, range) && !range_overlaps_published(lock, range);
}

/* The caller holds the mutex. */
static void
range_grant_waiting(struct range_lock *lock)
{
	for (struct range *range = lock->queue; range; range = range->next) {
		if (range->held || !range_may_hold(lock, range))
			continue;
		range->held = true;
		range->granted(range);
	}
}

/* Returns the last granule of a range, or the one after which all counts would repeat. */
static uint64_t
range_last_granule(const struct range *range)
{
	uint64_t first = range->start / RANGE_GRANULE, last = (range->end - 1) / RANGE_GRANULE;

	return last - first < RANGE_COUNTS ? last : first + RANGE_COUNTS - 1;
}

/* Publishes a range. Returns whether no other published range touches any of its granules. */
static bool
range_publish(struct range_lock *lock, struct range *range, struct range_slot *slot)
{
	uint64_t last = range_last_granule(range);
	bool alone = true;

	atomic_store_explicit(&slot->start, range->start, memory_order_relaxed);
	atomic_store(&slot->end, range->end); /* sequentially consistent: must come first */
	range->slot = slot;
	for (uint64_t i = range->start / RANGE_GRANULE; i <= last; i++) {
		if (atomic_fetch_add(&lock->counts[i % RANGE_COUNTS], 1) != 0)
			alone = false;
	}
	return alone;
}

static void
range_withdraw(struct range_lock *lock, struct range *range)
{
	uint64_t last = range_last_granule(range);

	for (uint64_t i = range->start / RANGE_GRANULE; i <= last; i++)
		atomic_fetch_sub(&lock->counts[i % RANGE_COUNTS], 1);
	atomic_store(&range->slot->end, 0); /* sequentially consistent, as above */
	range->slot = NULL;
}

/* The caller holds the mutex. */
static void
range_enqueue(struct range_lock *lock, struct range *range)
{
	struct range **at = &lock->queue;

	while (*at)
		at = &(*at)->next;
	range->next = NULL;
	range->queued = true;
	*at = range;
	atomic_fetch_add(&lock->contended, 1); /* must come before we look through the slots */
}

static void
range_dequeue(struct range_lock *lock, struct range *range)
{
	struct range **at = &lock->queue;

	while (*at != range)
		at = &(*at)->next;
	*at = range->next;
	range->queued = false;
	atomic_fetch_sub(&lock->contended, 1);
}

/* The short way is not possible: looks through the slots and the queue with the mutex held. */
static enum range_grant
range_begin_queued(struct range_lock *lock, struct range *range)
{
	bool held = true;

	pthread_mutex_lock(&lock->mutex);
	if (!range->slot || range_overlaps_queued(lock, range, NULL) ||
	    range_overlaps_published(lock, range)) {
		if (range->slot)
			range_withdraw(lock, range);
		range_enqueue(lock, range);
		/* Another range may have started to wait for the one that we published for a
		 * moment. */
		held = range->held = range_may_hold(lock, range);
		range_grant_waiting(lock);
	}
	pthread_mutex_unlock(&lock->mutex);
	if (!held)
		return RANGE_WAITS;
	return lock->observers ? RANGE_WATCHED : RANGE_HELD;
}

enum range_grant
range_begin(struct range_lock *lock, struct range *range, struct range_slot *slot)
{
	assert(range->end > range->start);
	range->held = range->queued = false;
	range->slot = NULL;
	if (slot && range_publish(lock, range, slot)) {
		unsigned int contended = atomic_load(&lock->contended);

		if (contended == 0)
			return RANGE_HELD;
		if (contended == RANGE_WATCH)
			return RANGE_WATCHED;
	}
	return range_begin_queued(lock, range);
}

void
range_end(struct range_lock *lock, struct range *range)
{
	if (range->slot) {
		range_withdraw(lock, range);
		if ((atomic_load(&lock->contended) & ~RANGE_WATCH) == 0)
			return;
	}
	pthread_mutex_lock(&lock->mutex);
	if (range->queued)
		range_dequeue(lock, range);
	range->held = false;
	range_grant_waiting(lock);
	pthread_mutex_unlock(&lock->mutex);
}

void
range_watch(struct range_lock *lock, bool watched)
{
	if (watched)
		atomic_fetch_or(&lock->contended, RANGE_WATCH);
	else
		atomic_fetch_and(&lock->contended, ~RANGE_WATCH);
}
