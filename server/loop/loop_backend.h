/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two kinds of event loop, io_uring and epoll, behind the same functions; called by loop.c
 * and spin.c.
 */
#ifndef SERVER_LOOP_LOOP_BACKEND_H
#define SERVER_LOOP_LOOP_BACKEND_H

#include "server/loop/loop_op.h"

#include <stdbool.h>

struct loop;
struct ring;

struct loop_backend {
	int (*init)(struct loop *loop, bool spins);
	void (*fini)(struct loop *loop);
	void (*start)(struct loop *loop, struct loop_op *op, bool all);
	void (*cancel)(struct loop *loop, struct loop_op *op);
	bool (*waits)(struct loop *loop, const struct loop_op *op);
	bool (*has_result)(struct loop *loop, const struct loop_op *op, int *result);
	int (*turn)(struct loop *loop, int timeout_ms);
	/* Submits the operations that were started, without waiting. */
	void (*submit)(struct loop *loop);
	/* Whether a turn would have something to do at once. Costs no system call with io_uring
	 * since Linux 6.1. */
	bool (*is_ready)(struct loop *loop);
};

struct loop {
	const struct loop_backend *backend;
	struct ring *ring;     /* NULL: epoll */
	bool is_quiet;         /* LOOP_SEND_QUIETLY is possible */
	struct loop_op *quiet; /* list: such sends that have not completed */
	void *state;
};

extern const struct loop_backend loop_backend_uring;
extern const struct loop_backend loop_backend_epoll;

#endif
