/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes connections from listeners and hands them to the workers, as many as are allowed at once.
 * On the main thread, but for acceptor_closed().
 */
#ifndef SERVER_DAEMON_ACCEPTOR_H
#define SERVER_DAEMON_ACCEPTOR_H

struct listener;
struct worker;

struct acceptor {
	struct worker *workers;
	unsigned int worker_count;
	unsigned int max; /* connections at once; 0: no limit */
	_Atomic unsigned int connections;
};

/* Accepts those that wait, up to a number that leaves time for other things.  If that fails, the
 * listener is paused. */
void
acceptor_take(struct acceptor *acceptor, struct listener *listener);

/* Hands over a socket that is connected already. */
void
acceptor_adopt(struct acceptor *acceptor, int fd);

/* A connection is over; any thread. */
void
acceptor_closed(struct acceptor *acceptor);

#endif
