/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations of rings, and the memory that they use. Most have a fiber of the kernel's, so that
 * they complete in any order.
 *
 *     begun -> done at once -> a CQE
 *           -> a fiber: a file's call, or a socket's wait -> done or cancelled -> a CQE
 */
#ifndef TESTS_SIMULATION_IO_OP_H
#define TESTS_SIMULATION_IO_OP_H

#include <stddef.h>
#include <stdint.h>

struct io_ring;
struct io_uring_sqe;
struct process;

/* Registered memory. */
struct io_buffer {
	char *start;
	size_t length;
	uint64_t tag;       /* of the completion that tells of its release; 0: none */
	unsigned int users; /* operations, and the table */
};

void
io_op_begin(struct io_ring *ring, const struct io_uring_sqe *sqe);

/* Gives up a use of the memory. The last one releases it, now or later, with a CQE. */
void
io_buffer_put(struct io_ring *ring, struct io_buffer *buffer);

/* The ring's thread is in the kernel: those of its sockets' operations go on that are due. */
void
io_ops_go_on(struct io_ring *ring);

/* Frees a ring's operations that only wait to tell of memory. All others must have ended. */
void
io_ops_end(const struct io_ring *ring);

/* Drops what the process's rings have in flight. */
void
io_ops_drop(struct process *process);

#endif
