/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/io/sweeper.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* When no more pages come, those of the last writes are still being written back. The sweeper looks
 * after them this many times, each time after twice the pause: up to 100 seconds in all. */
#define LAST_SWEEPS 11

/* Seconds before a thread that could not be started is tried again. Each transfer asks for it. */
#define START_PAUSE 1

/* More urgent than any page is. */
#define SWEEP_NEVER (SWEEP_PAGES + 1)

struct sweeper *
sweeper_new(int fd, uint64_t start, uint64_t end)
{
	struct sweeper *sweeper = aligned_alloc(64, sizeof(*sweeper));
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (!sweeper)
		return NULL;
	memset(sweeper, 0, sizeof(*sweeper));
	sweeper->fd = fd;
	/* The kernel keeps a page of which only a part is to be dropped. */
	sweeper->start = start & ~(page - 1);
	sweeper->end = end > INT64_MAX - page ? 0 : (end + page - 1) & ~(page - 1);
	pthread_mutex_init(&sweeper->mutex, NULL);
	thread_condition_init(&sweeper->work);
	return sweeper;
}

/* Starts the write-back of dirty pages, without waiting for it, and drops clean ones. Pages that
 * are being written back stay. The call reports no failed write-back, so flushes are told. */
static void
sweeper_sweep(const struct sweeper *sweeper)
{
	uint64_t length = sweeper->end ? sweeper->end - sweeper->start : 0;

	posix_fadvise(sweeper->fd, (off_t)sweeper->start, (off_t)length, POSIX_FADV_DONTNEED);
}

/* Waits for `ms` milliseconds, or until there are pages as urgent as `until`, or the sweeper is to
 * end. The caller holds the mutex. */
static void
sweeper_pause(struct sweeper *sweeper, unsigned int ms, enum sweep_need until)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += (long)(ms % 1000) * 1000000;
	end.tv_sec += ms / 1000 + end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	while (!sweeper->stop && atomic_load(&sweeper->touched) < until &&
	       pthread_cond_timedwait(&sweeper->work, &sweeper->mutex, &end) == 0)
		;
}

/* Sweeps until no more pages come. The caller holds the mutex, which is free during a sweep. */
static void
sweeper_sweep_all(struct sweeper *sweeper)
{
	unsigned int quiet = 0;

	thread_confine(THREAD_SWEEPER);
	while (!sweeper->stop && quiet <= LAST_SWEEPS) {
		sweeper_pause(sweeper, SWEEP_MS, SWEEP_NEVER);
		if (quiet > 0)
			sweeper_pause(sweeper, (SWEEP_MS << (quiet - 1)) - SWEEP_MS,
				      SWEEP_READ_AHEAD);
		if (atomic_load(&sweeper->touched) == SWEEP_READ_AHEAD)
			sweeper_pause(sweeper, SWEEP_AHEAD_MS - SWEEP_MS, SWEEP_PAGES);
		quiet = atomic_exchange(&sweeper->touched, SWEEP_NOTHING) ? 1 : quiet + 1;
		pthread_mutex_unlock(&sweeper->mutex);
		sweeper_sweep(sweeper);
		pthread_mutex_lock(&sweeper->mutex);
	}
}

static void *
sweeper_run(void *argument)
{
	struct sweeper *sweeper = argument;

	pthread_mutex_lock(&sweeper->mutex);
	while (!sweeper->stop) {
		if (atomic_load(&sweeper->touched))
			sweeper_sweep_all(sweeper);
		else
			pthread_cond_wait(&sweeper->work, &sweeper->mutex);
	}
	pthread_mutex_unlock(&sweeper->mutex);
	return NULL;
}

/* Starts the thread. The caller holds the mutex. */
static void
sweeper_start(struct sweeper *sweeper)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 60);
	int r;

	if (sweeper->started || sweeper->stop || clock_seconds(CLOCK_MONOTONIC) < sweeper->retry)
		return;
	r = thread_start(&sweeper->thread, sweeper_run, sweeper);
	sweeper->started = r == 0;
	sweeper->retry = clock_seconds(CLOCK_MONOTONIC) + START_PAUSE;
	if (r != 0 && log_limit_pass(&limit, NULL))
		log_warning(
			"page-cache=drop: no thread can be started: %s; pages stay until one can",
			strerror(-r));
}

void
sweeper_reserve(struct sweeper *sweeper)
{
	pthread_mutex_lock(&sweeper->mutex);
	sweeper_start(sweeper);
	pthread_mutex_unlock(&sweeper->mutex);
}

void
sweeper_wake(struct sweeper *sweeper, enum sweep_need need)
{
	pthread_mutex_lock(&sweeper->mutex);
	sweeper_start(sweeper);
	if (sweeper->started && atomic_load(&sweeper->touched) < need) {
		atomic_store(&sweeper->touched, need);
		pthread_cond_signal(&sweeper->work);
	}
	pthread_mutex_unlock(&sweeper->mutex);
}

void
sweeper_free(struct sweeper *sweeper)
{
	if (!sweeper)
		return;
	pthread_mutex_lock(&sweeper->mutex);
	sweeper->stop = true;
	pthread_cond_signal(&sweeper->work);
	pthread_mutex_unlock(&sweeper->mutex);
	if (sweeper->started) {
		pthread_join(sweeper->thread, NULL);
		sweeper_sweep(sweeper);
	}
	pthread_cond_destroy(&sweeper->work);
	pthread_mutex_destroy(&sweeper->mutex);
	free(sweeper);
}
