/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One io_uring, used by one thread. Queued SQEs go to the kernel together, and each completion goes
 * to its owner. A context has a ring of its own, or shares the ring of its host (an event loop),
 * which uses it for sockets, too.
 */
#ifndef ENGINE_BACKEND_RING_H
#define ENGINE_BACKEND_RING_H

#include "engine/backend/places.h"
#include "engine/completion.h"
#include "engine/registered.h"

#include <liburing.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Registered files of a ring that many images share: two for each of 2,000. Images that find no
 * place use their descriptors. */
#define RING_FILES 4096

/* Pieces of registered memory of a ring that many images share. Memory that finds no place is used
 * as it is. */
#define RING_MEMORY 4096

/* An SQE that had no place in the ring. */
struct ring_aside {
	struct io_uring_sqe sqe;
	struct ring_aside *next;
};

struct ring {
	struct io_uring uring;
	/* SQEs, oldest first, that were queued while the kernel took nothing; they go into the ring
	 * when there is room again. NULL: none. */
	struct ring_aside *aside, **aside_tail;
	unsigned int in_flight; /* number of operations whose completion is still to come */
	struct places files;    /* of registered files; none if the kernel registers none */
	struct places memory;   /* of registered memory, the same */
	bool memory_full;       /* no more can be registered until some was given back */
	size_t held; /* bytes whose place was given back and whose release was not told yet: see
			ring_held() */
	/* Why memory is used that is not registered, a static string; NULL: there is no reason. Any
	 * thread may read it. */
	_Atomic(const char *) unregistered;
};

/*
 * Makes a ring. `entries` SQEs can be queued between two submissions, and `in_flight` operations
 * (at least as many) can be in flight; `flags` are IORING_SETUP_*; at most `files` (up to
 * RING_FILES) files can be registered, or fewer if the kernel allows no more. Returns 0 or -errno.
 */
int
ring_init(struct ring *ring, unsigned int entries, unsigned int in_flight, unsigned int flags,
	  unsigned int files);

/* Frees the ring. Nothing may be in flight. */
void
ring_fini(struct ring *ring);

/* Registers `count` files. Returns the number of the first, which the others follow, or -1 if there
 * is no place for them. The descriptors stay the caller's. */
int
ring_add_files(struct ring *ring, const int *fds, unsigned int count);
/* Unregisters files that ring_add_files() has registered; `first` is its result. Does nothing for
 * -1. */
void
ring_remove_files(struct ring *ring, int first, unsigned int count);

/* Makes the ring's table of RING_MEMORY places for registered memory. A kernel that can't change
 * such a table while the ring is in use (before Linux 5.13) gets none, which is logged once. */
void
ring_offer_memory(struct ring *ring);

/*
 * Registers memory. Returns its place, or REGISTERED_NOWHERE if the ring has no table, no place is
 * free, or the process may not lock so much memory; the first time that is logged. The memory must
 * stay mapped until ring_remove_memory(). If it has no pages yet, this call gives it some, which
 * takes a third of a millisecond per MiB; otherwise 15 microseconds.
 */
int
ring_add_memory(struct ring *ring, void *memory, size_t length);

/* Unregisters memory of ring_add_memory(), which got `place` for `length` bytes. Operations in
 * flight may still use it: until they end, the kernel holds its pages, even if they are unmapped.
 * Does nothing for REGISTERED_NOWHERE. */
void
ring_remove_memory(struct ring *ring, int place, size_t length);

/*
 * Returns how many bytes, in whole pages, of unregistered memory the kernel still holds. Before
 * Linux 6.13, these are not only the ones that operations in flight use: all that is unregistered
 * waits until every operation has ended that uses any registered file or memory and was in flight
 * then; and before Linux 6.3, for a second. So if a disk hangs, all of it stays.
 */
size_t
ring_held(const struct ring *ring);

/* Records why memory of the ring is not registered, -errno, and logs it the first time. */
void
ring_memory_refused(struct ring *ring, int err);

/*
 * Returns the next SQE, which counts as in flight from now on. Submits the queued SQEs if that is
 * needed to make room. If the kernel takes none of them (its completion queue is full), the new SQE
 * is set aside until a later run finds room; if there is no memory for that, the call waits. The
 * caller prepares the SQE, and then sets its user data to a struct completion.
 */
struct io_uring_sqe *
ring_queue(struct ring *ring);

/* Submits the queued SQEs. Does not wait and does not look for completions. Returns 0 or -errno. */
int
ring_submit(struct ring *ring);

/* Submits the queued SQEs, waits for `min` of the operations in flight, and calls done() for all
 * completions, also if the kernel took no SQE. Returns 0 or -errno. */
int
ring_run(struct ring *ring, unsigned int min);

/* The same, but waits for one completion, and for at most `timeout_ms` milliseconds (-1: no limit,
 * 0: does not wait). */
int
ring_run_for(struct ring *ring, int timeout_ms);

/* The operation that a completion queue entry belongs to; NULL: it is none of ours. */
struct completion *
ring_completion(const struct io_uring_cqe *cqe);

/* The two parts of ring_run_for(): the first submits and waits, the second calls done(). */
int
ring_enter_for(struct ring *ring, int timeout_ms);
void
ring_complete_all(struct ring *ring);

/* Returns whether the kernel has taken all SQEs, and all results that it has told since are in the
 * completion queue. */
bool
ring_tells_all(const struct ring *ring);

/* Returns whether the operation that was queued with this completion has its result, which is then
 * in *result, and which the next run will pass to done(). */
bool
ring_has_result(struct ring *ring, const struct completion *completion, int *result);

/* Returns whether ring_run_for(ring, 0) would have completions to pass on, or SQEs that were set
 * aside to submit. Costs a system call without IORING_SETUP_TASKRUN_FLAG. */
bool
ring_is_ready(struct ring *ring);

#endif
