/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranges of an image that are being written, so that a read-modify-write of a block excludes every
 * other write to that block.  (A plain write that lands between its read and its write would be
 * undone: a neighbour's bytes lost.)
 *
 * Almost all writes are plain, and they must not share a cache line (sources: the kernel's
 * DIO_SKIP_DIO_COUNT).  So a plain write only publishes its range in a slot of its own context, and
 * looks at one counter that changes only when somebody needs exclusion.  Who needs it raises the
 * counter, and then looks through all slots.  Both sides write first and look then, with sequential
 * consistency, so at least one sees the other (Dekker); what is in conflict waits in one queue,
 * first come, first served.
 */
#ifndef ENGINE_RANGE_H
#define ENGINE_RANGE_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Where a context publishes its plain writes; written by the context's thread only. */
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
	bool exclusive;
	/* Called, by any thread and with the mutex held, when a wish that had to wait is granted. It may only
	 * pass the news on. */
	void (*granted)(struct range *range);
	/* private */
	struct range_slot *slot; /* published here, or NULL */
	bool held, queued;
	struct range *next;
};

struct range_lock {
	/* Length of the queue; alone in its cache line, which every plain write reads. */
	alignas(64) _Atomic unsigned int contended;
	alignas(64) pthread_mutex_t mutex; /* guards all below */
	struct range *queue;            /* first come first */
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
 * Asks for a range.  A plain (not exclusive) one needs a free slot of the caller's context; an exclusive one
 * takes none.  Returns true when it is granted at once; else `granted` is called later.
 */
bool
range_begin(struct range_lock *lock, struct range *range, struct range_slot *slot);

/* Gives a granted range back. */
void
range_end(struct range_lock *lock, struct range *range);

#endif
