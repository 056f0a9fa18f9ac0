/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes connections from listeners and hands them to the workers, as many as are allowed at once.  On the main thread,
 * but for acceptor_closed().
 */
#ifndef SERVER_ACCEPTOR_H
#define SERVER_ACCEPTOR_H

#include <stdint.h>

struct listener;
struct worker;

struct acceptor {
	struct worker *workers;
	unsigned int worker_count;
	unsigned int max;        /* connections at once; 0: no limit */
	int64_t paused_until;    /* CLOCK_MONOTONIC, ms; 0: not paused */
	_Atomic unsigned int connections;
};

/* Accepts those that wait, up to a number that leaves time for other things. */
void
acceptor_take(struct acceptor *acceptor, const struct listener *listener);

/* Hands over a socket that is connected already. */
void
acceptor_adopt(struct acceptor *acceptor, int fd);

/* Milliseconds until the listeners may be looked at again: after it ran out of descriptors or memory.  0: now. */
int
acceptor_pause(struct acceptor *acceptor);

/* A connection is over; any thread. */
void
acceptor_closed(struct acceptor *acceptor);

#endif
