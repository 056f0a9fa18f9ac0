/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Busy polling of an event loop: before a turn sleeps, it polls for completions for a while. The
 * time adapts, as with QEMU's poll-max-ns: it grows when an event comes a little later, and is 0
 * when an event comes much later, so that an idle loop sleeps.
 */
#ifndef SERVER_LOOP_SPIN_H
#define SERVER_LOOP_SPIN_H

#include "server/loop/loop.h"

#include <stdint.h>

struct spin {
	uint64_t max;    /* nanoseconds; 0: never */
	uint64_t window; /* nanoseconds, at most max: how long the next turn polls */
	uint64_t found;  /* turns that found a completion by polling */
	uint64_t sleeps; /* turns that could sleep */
};

/* loop_turn(), after looking. `loop` was made with `spins` unless spin->max is 0. */
int
spin_turn(struct spin *spin, struct loop *loop, int timeout_ms);

#endif
