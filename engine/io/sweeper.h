/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sweeper of an image with page-cache=drop: a thread that drops the pages which reads and
 * writes have left in the page cache. It starts the write-back of dirty pages, and drops them when
 * they are clean. It never makes anything durable: that is for flushes.
 */
#ifndef ENGINE_IO_SWEEPER_H
#define ENGINE_IO_SWEEPER_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* How long pages stay before a sweep, in milliseconds. Meanwhile the writes to a page, and to its
 * neighbours, come together in one write-back; at 1 GB/s, 50 MB of pages gather. */
#define SWEEP_MS 50

/* The same for pages that the kernel has read ahead: a sweep would only make it read them again. */
#define SWEEP_AHEAD_MS 1000

/* What there may be to sweep, in order of urgency. */
enum sweep_need {
	SWEEP_NOTHING,
	SWEEP_READ_AHEAD,
	SWEEP_PAGES,
};

struct sweeper {
	/* Constant. */
	int fd;              /* the caller's, and buffered */
	uint64_t start, end; /* the part of the file to sweep, in bytes; whole pages */

	/* The pages, enum sweep_need, that may have come since the last sweep began. Any thread
	 * raises it; the sweeper clears it. */
	alignas(64) _Atomic unsigned int touched;

	alignas(64) pthread_mutex_t mutex; /* guards the members below */
	pthread_cond_t work;
	pthread_t thread;
	bool started, stop;
	time_t retry; /* CLOCK_MONOTONIC, seconds: not before then is the start tried again */
};

/* Makes a sweeper for the bytes of `fd` from `start` up to `end` (UINT64_MAX: all that follow).
 * Starts no thread yet, because it would not survive a fork. `fd` stays the caller's, and must
 * outlive the sweeper. Returns NULL if there is no memory. */
struct sweeper *
sweeper_new(int fd, uint64_t start, uint64_t end);

/* Ends the thread, after a last sweep of what is clean. NULL is allowed. */
void
sweeper_free(struct sweeper *sweeper);

/* Starts the thread now, for processes that may have no memory for it later. */
void
sweeper_reserve(struct sweeper *sweeper);

/* Begins to sweep: see sweeper_touch(). */
void
sweeper_wake(struct sweeper *sweeper, enum sweep_need need);

/* Tells that a transfer has left pages in the page cache, or that a sync has made some clean. Never
 * waits for I/O. */
static inline void
sweeper_touch(struct sweeper *sweeper, enum sweep_need need)
{
	if (atomic_load_explicit(&sweeper->touched, memory_order_relaxed) < need)
		sweeper_wake(sweeper, need);
}

#endif
