/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/image/freeze.h"

#include "engine/io/image_state.h"

#include "common/container_of.h"
#include "common/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* Held while a freeze of several images begins: two that begin at the same time would each wait for
 * a file of the other one's. One that waits for a single file holds nothing meanwhile, and a file
 * whose disk does not answer must not keep others from it. */
static pthread_mutex_t beginning = PTHREAD_MUTEX_INITIALIZER;

static void
freeze_granted(struct range *range)
{
	struct frozen *frozen = container_of(range, struct frozen, range);

	pthread_mutex_lock(&frozen->mutex);
	frozen->done = true;
	pthread_cond_signal(&frozen->granted);
	pthread_mutex_unlock(&frozen->mutex);
}

/* Waits until `end` (CLOCK_MONOTONIC), or without a limit (NULL). Returns whether the range is
 * held.
 */
static bool
freeze_await(struct frozen *frozen, const struct timespec *end)
{
	int r = 0;

	pthread_mutex_lock(&frozen->mutex);
	while (!frozen->done && r == 0)
		r = end ? pthread_cond_timedwait(&frozen->granted, &frozen->mutex, end)
			: pthread_cond_wait(&frozen->granted, &frozen->mutex);
	r = frozen->done;
	pthread_mutex_unlock(&frozen->mutex);
	return r;
}

/* Stops the changes of a file: those in flight complete, and new ones wait. Returns whether they
 * have completed in time; in any case, freeze_end() goes back. */
static bool
freeze_file(struct frozen *frozen, struct range_lock *ranges, const struct timespec *end)
{
	frozen->ranges = ranges;
	frozen->range = (struct range){.start = 0, .end = UINT64_MAX, .granted = freeze_granted};
	frozen->done = false;
	pthread_mutex_init(&frozen->mutex, NULL);
	thread_condition_init(&frozen->granted);
	return range_begin(ranges, &frozen->range, NULL) != RANGE_WAITS ||
	       freeze_await(frozen, end);
}

static bool
freeze_has(const struct freeze *freeze, const struct image *image)
{
	for (size_t i = 0; i < freeze->count; i++) {
		if (freeze->files[i].ranges == image->ranges)
			return true;
	}
	return false;
}

int
freeze_begin_in_time(struct freeze *freeze, struct image *const *images, size_t count)
{
	struct timespec end;
	bool in_time = true;

	*freeze = (struct freeze){.count = 0, .files = malloc(count * sizeof(freeze->files[0]))};
	if (!freeze->files)
		return -ENOMEM;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += FREEZE_LIMIT;
	pthread_mutex_lock(&beginning);
	for (size_t i = 0; i < count && in_time; i++) {
		if (!freeze_has(freeze, images[i]))
			in_time = freeze_file(&freeze->files[freeze->count++], images[i]->ranges,
					      &end);
	}
	pthread_mutex_unlock(&beginning);
	if (!in_time)
		freeze_end(freeze);
	return in_time ? 0 : -ETIMEDOUT;
}

int
freeze_begin(struct freeze *freeze, struct image *const *images, size_t count)
{
	/* Those of several images that are frozen first wait for the last one. */
	if (count > 1)
		return freeze_begin_in_time(freeze, images, count);
	*freeze = (struct freeze){.count = 0, .files = &freeze->first};
	freeze_file(&freeze->files[freeze->count++], images[0]->ranges, NULL);
	return 0;
}

void
freeze_end(struct freeze *freeze)
{
	for (size_t i = 0; i < freeze->count; i++) {
		struct frozen *frozen = &freeze->files[i];

		range_end(frozen->ranges, &frozen->range);
		pthread_cond_destroy(&frozen->granted);
		pthread_mutex_destroy(&frozen->mutex);
	}
	if (freeze->files != &freeze->first)
		free(freeze->files);
}
