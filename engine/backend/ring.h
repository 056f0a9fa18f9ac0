/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One io_uring, used by one thread: what is queued goes to the kernel together, and each completion
 * goes to whom it belongs.  A context has one of its own, or shares its host's (an event loop's),
 * where sockets use it too.
 */
#ifndef ENGINE_BACKEND_RING_H
#define ENGINE_BACKEND_RING_H

#include "engine/completion.h"

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>

/* Registered files: so many images can have theirs in a ring. Further ones work without. */
#define RING_FILES 64

/* An SQE that found no place in the ring. */
struct ring_aside {
	struct io_uring_sqe sqe;
	struct ring_aside *next;
};

struct ring {
	struct io_uring uring;
	/* While the kernel takes nothing: they follow when it does, in their order. NULL: none. */
	struct ring_aside *aside, **aside_tail;
	unsigned int in_flight;  /* completions that are still to come */
	uint64_t files;          /* numbers of registered files given out, a bit for each */
	unsigned int file_limit; /* how many there are; 0: the kernel registers none */
};

/*
 * `entries` SQEs can be queued between two submissions, `in_flight` can be under way (at least as
 * many); `flags` are IORING_SETUP_*; at most `files` can be registered.  Returns 0 or -errno.
 */
int
ring_init(struct ring *ring, unsigned int entries, unsigned int in_flight, unsigned int flags,
	  unsigned int files);

/* Nothing may be in flight. */
void
ring_fini(struct ring *ring);

/* Registers files.  Returns the number of the first; the others follow it; or -1: there is no
 * place. */
int
ring_add_files(struct ring *ring, const int *fds, unsigned int count);
void
ring_remove_files(struct ring *ring, int first, unsigned int count);

/*
 * The next SQE, which counts as in flight from now on; submits what is queued if that has to make
 * room.  When the kernel does not take that (its queue of completions is full), it is kept for the
 * next run, behind which there is room. The caller prepares it, and then sets its user data to a
 * struct completion.
 */
struct io_uring_sqe *
ring_queue(struct ring *ring);

/* Submits, without waiting and without looking for completions.  0 or -errno. */
int
ring_submit(struct ring *ring);

/* Submits, waits for `min` completions (of those in flight), and calls done() for all there are,
 * also when the kernel took nothing.  0 or -errno. */
int
ring_run(struct ring *ring, unsigned int min);

/* The same, but waits for one completion, and for at most `timeout_ms` (-1: for ever, 0: not at
 * all). */
int
ring_run_for(struct ring *ring, int timeout_ms);

/* Whether the result of what was queued with this completion is there, to be told by the next run.
 */
bool
ring_has_result(struct ring *ring, const struct completion *completion, int *result);

/* Whether there are completions for ring_run_for(ring, 0).  Without IORING_SETUP_TASKRUN_FLAG it
 * costs a system call. */
bool
ring_is_ready(struct ring *ring);

#endif
