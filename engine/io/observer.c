/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/io/observer.h"

#include "engine/io/range.h"

#include <assert.h>
#include <stddef.h>

bool
observers_ask(const struct range_lock *lock, struct range *range)
{
	struct observer *observer = range->observer ? range->observer->next : lock->observers;

	for (; observer; observer = observer->next) {
		/* Must come first: another thread may release the change before change() returns.
		 */
		range->observer = observer;
		if (!observer->change(observer, range))
			return false;
	}
	return true;
}

void
observer_release(struct range *range)
{
	range->granted(range);
}

/* The bit need not change at the same moment as the list, since no change is between the two. */
void
observer_add(struct range_lock *lock, struct observer *observer)
{
	observer->next = lock->observers;
	lock->observers = observer;
	range_watch(lock, true);
}

void
observers_tell_end(const struct range_lock *lock, uint64_t end)
{
	for (struct observer *observer = lock->observers; observer; observer = observer->next) {
		if (observer->truncated)
			observer->truncated(observer, end);
	}
}

void
observer_remove(struct range_lock *lock, struct observer *observer)
{
	struct observer **at;

	for (at = &lock->observers; *at != observer; at = &(*at)->next)
		assert(*at);
	*at = observer->next;
	range_watch(lock, lock->observers != NULL);
}
