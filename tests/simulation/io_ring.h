/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * io_uring: the kernel's side of a ring, behind the functions of liburing that are not inline. The
 * SQEs that a run takes become operations, each with a fiber of the kernel's, so that they complete
 * in any order. Where Linux versions differ, the mood chooses.
 *
 *     submitted -> done at once -> a CQE
 *               -> a fiber: a file's call, or a socket's wait -> done or cancelled -> a CQE
 *     a CQE -> the completion queue, if it has room and the ring needs no thread for it
 *           -> else it waits in the kernel until the ring's thread asks for it
 */
#ifndef TESTS_SIMULATION_IO_RING_H
#define TESTS_SIMULATION_IO_RING_H

#include <stdbool.h>

struct process;

struct io_ring_mood {
	bool absent;         /* there is no io_uring */
	bool defers;         /* IORING_SETUP_DEFER_TASKRUN is known (Linux 6.1) */
	bool wait_all;       /* MSG_WAITALL holds (Linux 6.0); else transfers can be short */
	bool busy;           /* takes nothing while completions have no room (before Linux 5.19) */
	bool many_files;     /* a table of files may be larger than the limit of open files */
	bool small;          /* there is no memory for large rings, such as an event loop's */
	bool few_places;     /* queues are smaller than asked for */
	bool old_memory;     /* no sparse table of memory (before Linux 5.19) */
	bool late_release;   /* registered memory is released late (before Linux 6.3) */
	unsigned int refuse; /* once in so many calls, there is no memory; 0: never */
	unsigned int cancel; /* once in so many operations, no thread for it; 0: never */
};

extern struct io_ring_mood io_ring_mood;

/* Drops what the process's rings have in flight. */
void
io_rings_drop(struct process *process);

#endif
