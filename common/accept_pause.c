/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/accept_pause.h"

#include "common/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* In milliseconds: long enough to cost nothing, short enough that clients hardly notice a shortage
 * that lasts only a moment. */
#define PAUSE_MS 100

int
accept_or_pause(struct accept_pause *pause, int listener, int flags, const char *name)
{
	int fd = accept4(listener, NULL, NULL, flags);
	int err = errno;

	/* EAGAIN is the only error that means that no connection waits. */
	if (fd >= 0 || err == EAGAIN)
		return fd;
	pause->until = clock_ms(CLOCK_MONOTONIC) + PAUSE_MS;
	if (log_limit_pass(&pause->limit, NULL))
		log_error("%s: cannot accept connections: %s; they wait%s", name, strerror(err),
			  err == EMFILE ? " (ulimit -Hn can be higher, or connections fewer)" : "");
	return -1;
}

int
accept_pause_left(struct accept_pause *pause)
{
	int64_t left = pause->until ? pause->until - clock_ms(CLOCK_MONOTONIC) : 0;

	if (left <= 0)
		pause->until = 0;
	return left > 0 ? (int)left : 0;
}

int
accept_pause_timeout(int timeout_ms, int left)
{
	return left && (timeout_ms < 0 || left < timeout_ms) ? left : timeout_ms;
}
