/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rule for all sockets that take connections: whatever accept() fails with, the clients wait,
 * it is said once in a while, and it is tried again after a pause.  An error may leave the
 * connection where it is (no descriptor or memory is left, a security module objects): who tried
 * again at once would do nothing else.  Each listening socket has a pause of its own.
 */
#ifndef COMMON_ACCEPT_PAUSE_H
#define COMMON_ACCEPT_PAUSE_H

#include "common/log.h"

#include <stdint.h>

/* Of one listening socket, and for the one thread that uses it. */
struct accept_pause {
	int64_t until; /* CLOCK_MONOTONIC, ms; 0: no pause */
	struct log_limit limit;
};

#define ACCEPT_PAUSE_INIT                                                                          \
	{                                                                                          \
		.limit = LOG_LIMIT_INIT(1, 60)                                                     \
	}

/*
 * Accepts a connection from a socket that does not block; `flags` are accept4()'s, `name` is the
 * socket's for the log. Returns a descriptor (caller closes), or -1: nobody waits, or it failed,
 * and a pause begins.
 */
int
accept_or_pause(struct accept_pause *pause, int listener, int flags, const char *name);

/* Milliseconds until the socket is to be looked at again; 0: now.  Meanwhile it is left out of what
 * is polled. */
int
accept_pause_left(struct accept_pause *pause);

/* The shorter one of two limits for poll(): `timeout_ms` (-1: none), and what accept_pause_left()
 * gave. */
int
accept_pause_timeout(int timeout_ms, int left);

#endif
