/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * io_uring: the kernel's side of a ring. The functions of liburing (liburing.c) take SQEs from it,
 * and the operations (io_op.c) give it CQEs. Where Linux versions differ, the mood chooses.
 *
 *     a CQE -> the completion queue, if it has room and the ring needs no thread for it
 *           -> else it waits in the kernel until the ring's thread asks for it
 */
#ifndef TESTS_SIMULATION_IO_RING_H
#define TESTS_SIMULATION_IO_RING_H

#include "tests/simulation/descriptor.h"

#include <stdbool.h>
#include <stdint.h>

struct io_buffer;
struct io_late;
struct io_uring;
struct io_uring_cqe;
struct io_uring_sqe;

struct io_ring_mood {
	bool absent;         /* there is no io_uring */
	bool defers;         /* IORING_SETUP_DEFER_TASKRUN is known (Linux 6.1) */
	bool wait_all;       /* MSG_WAITALL holds (Linux 6.0); else transfers can be short */
	bool busy;           /* takes nothing while completions have no room (before Linux 5.19) */
	bool many_files;     /* a table of files may be larger than the limit of open files */
	bool small;          /* there is no memory for large rings, such as an event loop's */
	bool few_places;     /* queues are smaller than asked for */
	bool old;            /* no IORING_SETUP_COOP_TASKRUN, nor a sparse table of memory (before
			      * Linux 5.19) */
	bool late_release;   /* registered memory is released late (before Linux 6.3) */
	unsigned int refuse; /* once in so many calls, there is no memory; 0: never */
	unsigned int cancel; /* once in so many operations, no thread for it; 0: never */
};

extern struct io_ring_mood io_ring_mood;

struct io_lates {
	struct io_late *first, **last;
};

struct io_ring {
	struct description description;
	unsigned int flags;
	unsigned int maker; /* the fiber */
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
	unsigned int entries, completions; /* places of both, powers of two */
	unsigned int sq_head, sq_tail, sq_flags, cq_head, cq_tail;
	struct description **files; /* registered ones */
	unsigned int file_count;
	struct io_buffer **buffers; /* registered memory */
	unsigned int buffer_count;
	struct description *event;
	struct io_lates overflow; /* the queue had no room */
	struct io_lates deferred; /* the ring's thread must ask for them */
	unsigned int due;         /* operations of sockets that go on when it asks */
	bool submits;             /* its thread is in the kernel, which may add completions */
};

/* How many completions the product sees. */
unsigned int
io_ring_ready(const struct io_ring *ring);

/* The same after io_ring_flush(), if the queue has room. */
unsigned int
io_ring_pending(const struct io_ring *ring);

/* Adds a completion. */
void
io_ring_post(struct io_ring *ring, uint64_t user_data, int result);

/* Shows the completions that the ring's thread gets when it asks. */
void
io_ring_flush(struct io_ring *ring);

/* An operation is due: it goes on when the ring's thread asks. */
void
io_ring_note_due(struct io_ring *ring);

/* Unregisters the files. */
void
io_ring_forget_files(struct io_ring *ring);

/* Fails if it is no ring. */
struct io_ring *
io_ring_of(const struct io_uring *uring);

/* A ring of the running fiber, with at least so many places. */
struct io_ring *
io_ring_new(unsigned int flags, unsigned int entries, unsigned int completions);

#endif
