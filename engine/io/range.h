/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranges of a file that are being changed: no two overlapping ranges are held at the same time.
 *
 * So the read-modify-write of a block cannot lose a neighbour's bytes. It also protects a client
 * that takes a connection for dead and sends a write again over another connection: the client gets
 * the second answer only after the first attempt has ended, so the first attempt cannot overwrite
 * newer data.
 *
 * Almost all writes go where no other write is in flight, and contexts must not touch a common
 * cache line for each of them (the kernel has DIO_SKIP_DIO_COUNT for the same reason). So a write
 * publishes its range in a slot of its own context, and adds one to the count of each granule of
 * the file that it touches; these counts lie in as many cache lines as a large image keeps busy. If
 * the write was the first in all its granules, and no write waits in the queue, it overlaps no
 * other. Otherwise it looks through all slots, and waits in one queue, first come, first served,
 * for the writes in its way. Two writes that overlap both publish, count and look, in this order
 * and with sequential consistency, so at least one of them sees the other (Dekker's algorithm).
 */
#ifndef ENGINE_IO_RANGE_H
#define ENGINE_IO_RANGE_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct observer;

/* A context publishes one change in each slot. Only the context's thread writes it. */
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

/* A request for a range, embedded in the operation that makes it. */
struct range {
	uint64_t start, end; /* in the file, in bytes; end > start */
	/* Called when a request that had to wait is granted, by any thread and with the mutex held,
	 * and later when an observer releases it. The function may only pass the news on. */
	void (*granted)(struct range *range);
	struct observer *observer; /* observer.c's: the one that was asked last */
	struct range *waiting;     /* that observer's, while the change waits for it */
	/* Private. */
	struct range_slot *slot; /* where the range is published, or NULL */
	bool held, queued;
	struct range *next;
};

/* Size of a granule, in bytes, and number of counts. Granules that are a multiple of 16 MiB apart
 * share a count: then two writes that do not overlap may take each other for neighbours, and look
 * through the slots. */
#define RANGE_GRANULE 4096
#define RANGE_COUNTS  4096

/* The bit of .contended that tells of observers. */
#define RANGE_WATCH (1u << 31)

struct range_lock {
	/* Length of the queue, and RANGE_WATCH: if it is 0, a change that overlaps no other need
	 * not look further. Alone in its cache line, because every change reads it. */
	alignas(64) _Atomic unsigned int contended;
	/* How many published ranges touch the granules of each count. */
	alignas(64) _Atomic unsigned int counts[RANGE_COUNTS];
	alignas(64) pthread_mutex_t mutex; /* guards the members below */
	struct range *queue;               /* oldest first */
	struct range_track *tracks;
	/* Observers of the file (observer.h). Changed only by the holder of the whole file's range,
	 * and read only by holders of a range. */
	struct observer *observers;
};

/* Makes a lock without ranges and tracks. */
void
range_lock_init(struct range_lock *lock);
/* Frees the lock. All tracks must have been removed, and no range may be held or wait. */
void
range_lock_fini(struct range_lock *lock);

/* Makes a context's slots known to the lock. All `slots` are free; they stay the caller's, and must
 * stay in place until range_track_remove(). */
void
range_track_add(struct range_lock *lock, struct range_track *track, struct range_slot *slots,
		unsigned int count);
/* Takes the slots out of the lock; all must be free. */
void
range_track_remove(struct range_lock *lock, struct range_track *track);

enum range_grant {
	RANGE_WAITS,   /* `granted` is called later, or has been called already; the slot is free
			  again */
	RANGE_HELD,    /* granted at once */
	RANGE_WATCHED, /* the same, and the file has observers */
};

/* Asks for a range, through a free slot of the caller's context, or through the queue (slot NULL).
 */
enum range_grant
range_begin(struct range_lock *lock, struct range *range, struct range_slot *slot);

/* Releases a granted range, and grants the waiting ranges that it was in the way of. */
void
range_end(struct range_lock *lock, struct range *range);

/* Sets whether the file has observers. Only the holder of the whole file's range may call this. */
void
range_watch(struct range_lock *lock, bool watched);

#endif
