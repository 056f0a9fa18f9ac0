/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes connections from listeners, up to the allowed number, and gives each to the worker with the
 * fewest. Runs on the main thread.
 */
#ifndef SERVER_DAEMON_ACCEPTOR_H
#define SERVER_DAEMON_ACCEPTOR_H

#include "server/access/newcomers.h"
#include "server/daemon/refusals.h"

#include <poll.h>

struct listener;
struct worker;

struct acceptor {
	struct worker *workers;
	unsigned int worker_count;
	unsigned int max;                 /* connections at once; 0: no limit */
	_Atomic unsigned int connections; /* counted down by the workers' config->closed() */
	struct newcomers newcomers;       /* with a limit, at most half of them */
	int64_t full_until;       /* CLOCK_MONOTONIC, ms: until then, newcomers have no place */
	struct refusals refusals; /* of those above .max */
};

/* Accepts waiting connections, but not so many that other events have to wait for long. If it
 * fails, the listener is paused. */
void
acceptor_take(struct acceptor *acceptor, struct listener *listener);

/* Lists the listeners from which a connection can be accepted now, for poll(); .fd is -1 for the
 * others. Returns poll()'s timeout in milliseconds, at most `timeout`. */
int
acceptor_list(struct acceptor *acceptor, struct listener *listener, struct pollfd *polled,
	      int timeout);

/* Sets the options of connected sockets of --fd, some of which need a privilege. NULL: none. */
void
acceptor_prepare(char *const *fds);

/* Gives a socket that is connected already to a worker. */
void
acceptor_adopt(struct acceptor *acceptor, int fd);

#endif
