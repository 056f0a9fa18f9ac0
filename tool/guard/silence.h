/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a device's server has gone silent, by the kernel's figures in /sys: requests are in
 * flight, and none has been answered for some time.  A busy server that leaves one request
 * unanswered is not silent.
 *
 * The kernel could give each request a time limit instead.  But it repeats the requests of a lost
 * connection only when that limit is over, so a restart of the server would cost as much.
 */
#ifndef TOOL_GUARD_SILENCE_H
#define TOOL_GUARD_SILENCE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* All zero at the beginning, and again when the device has another connection. */
struct silence {
	uint64_t answered; /* requests */
	gint64 since;      /* since when no more were, as `now` tells it; 0: unknown */
};

/* Looks at the device `name`: whether it has lasted for so many seconds.  `now`:
 * g_get_monotonic_time(). */
bool
silence_lasts(struct silence *silence, const char *name, unsigned int seconds, gint64 now);

#endif
