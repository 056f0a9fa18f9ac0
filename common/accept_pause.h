/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rule for all sockets that accept connections: if accept() fails, the log says so once in a
 * while, the clients wait, and the server tries again after a pause. Many errors leave the
 * connection in the queue (no descriptor or memory is left, a security module objects), so a server
 * that tried again at once would do nothing else. Each listening socket has its own pause.
 */
#ifndef COMMON_ACCEPT_PAUSE_H
#define COMMON_ACCEPT_PAUSE_H

#include "common/log.h"

#include <stdint.h>

/* The pause of one listening socket. Only one thread may use it. */
struct accept_pause {
	int64_t until; /* CLOCK_MONOTONIC, ms; 0: no pause */
	struct log_limit limit;
};

#define ACCEPT_PAUSE_INIT                                                                          \
	{                                                                                          \
		.limit = LOG_LIMIT_INIT(1, 60)                                                     \
	}

/*
 * Accepts a connection from a non-blocking socket. `flags` are those of accept4(), `name` is the
 * socket's name in the log. Returns a descriptor, which the caller closes; or -1 if no connection
 * waits, or if accept4() failed, which starts a pause.
 */
int
accept_or_pause(struct accept_pause *pause, int listener, int flags, const char *name);

/* Returns how many milliseconds of the pause are left; 0: no pause. During a pause, the caller does
 * not poll the socket. */
int
accept_pause_left(struct accept_pause *pause);

/* Returns a time limit for poll(), in milliseconds: the shorter one of `timeout_ms` (-1: no limit)
 * and `left`, a result of accept_pause_left(). */
int
accept_pause_timeout(int timeout_ms, int left);

#endif
