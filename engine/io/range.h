/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranges of a file that are being changed: no two that overlap at the same time.
 *
 * So a read-modify-write of a block can't lose a neighbour's bytes.  And a client that takes a
 * connection for dead and sends a write again over another one is answered after the first try has
 * come to its end: that can't replace what is written later.
 *
 * Almost all writes go where no other is under way, and contexts must not meet in one cache line
 * for each of them (sources: the kernel's DIO_SKIP_DIO_COUNT).  So a write publishes its range in a
 * slot of its own context, and adds one to the counts of the granules of the file that it touches,
 * which lie in as many cache lines as a large image keeps busy. If it was the first in all of them,
 * and nobody waits, nobody overlaps it.  Else it looks through all slots, and waits in one queue,
 * first come, first served, for those in its way.  Both of two writes that overlap publish, count
 * and look in this order, with sequential consistency, so at least one sees the other (Dekker).
 */
#ifndef ENGINE_IO_RANGE_H
#define ENGINE_IO_RANGE_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Where a context publishes its changes; written by the context's thread only. */
struct range_slot {
	_Atomic uint64_t start;
	_Atomic uint64_t end; /* 0: the slot is free */
};

/* The slots of one context. */
struct range_track {
	struct range_slot *slots;
	unsigned int count;
	struct range_track *next; /* guarded by range_lock.mutex */
};

/* One wish; embedded in the operation that has it. */
struct range {
	uint64_t start, end; /* bytes, end > start */
	/* Called, by any thread and with the mutex held, when a wish that had to wait is granted.
	 * It may only pass the news on. */
	void (*granted)(struct range *range);
	/* private */
	struct range_slot *slot; /* published here, or NULL */
	bool held, queued;
	struct range *next;
};

/* The granules of a file share a count when they are a multiple of 16 MiB apart: then two writes
 * that are alone may take each other for a neighbour, and look. */
#define RANGE_GRANULE 4096
#define RANGE_COUNTS  4096

struct range_lock {
	/* Length of the queue; alone in its cache line, which every change reads. */
	alignas(64) _Atomic unsigned int contended;
	/* How many published ranges touch a granule. */
	alignas(64) _Atomic unsigned int counts[RANGE_COUNTS];
	alignas(64) pthread_mutex_t mutex; /* guards all below */
	struct range *queue;               /* first come first */
	struct range_track *tracks;
};

void
range_lock_init(struct range_lock *lock);
void
range_lock_fini(struct range_lock *lock);

/* Makes a context's slots known.  `slots` are all free and stay the caller's until removed. */
void
range_track_add(struct range_lock *lock, struct range_track *track, struct range_slot *slots,
		unsigned int count);
void
range_track_remove(struct range_lock *lock, struct range_track *track);

/*
 * Asks for a range, by way of a free slot of the caller's context, or of the queue (slot NULL).
 * Returns true when it is granted at once; else `granted` is called later, and the slot is free
 * again.
 */
bool
range_begin(struct range_lock *lock, struct range *range, struct range_slot *slot);

/* Gives a granted range back. */
void
range_end(struct range_lock *lock, struct range *range);

#endif
