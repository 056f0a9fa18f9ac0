/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Busy polling of an event loop: before a turn sleeps, it looks for a while whether something has
 * completed.  How long it looks adapts itself, as with QEMU's poll-max-ns: when an event comes a
 * little later, longer; when it comes much later, not at all, so that an idle loop sleeps.
 */
#ifndef SERVER_LOOP_SPIN_H
#define SERVER_LOOP_SPIN_H

#include "server/loop/loop.h"

#include <stdint.h>

struct spin {
	uint64_t max;    /* nanoseconds; 0: never */
	uint64_t window; /* nanoseconds, at most max: how long the next turn looks */
	uint64_t found;  /* turns that found something so */
	uint64_t sleeps; /* turns that could sleep */
};

/* loop_turn(), after looking.  `loop` was made with `spins` unless spin->max is 0. */
int
spin_turn(struct spin *spin, struct loop *loop, int timeout_ms);

#endif
