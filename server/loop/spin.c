/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/loop/spin.h"

#include "server/loop/loop_backend.h"

#include "common/clock.h"

/* Nanoseconds: the first window, which doubles from there. */
#define WINDOW_MIN 4000

static bool
spin_look(struct loop *loop, uint64_t end)
{
	loop->backend->submit(loop);
	do {
		if (loop->backend->is_ready(loop))
			return true;
	} while (clock_ns(CLOCK_MONOTONIC) < end);
	return false;
}

int
spin_turn(struct spin *spin, struct loop *loop, int timeout_ms)
{
	uint64_t begin, waited;
	int r;

	if (timeout_ms == 0)
		return loop->backend->turn(loop, 0);
	if (spin->max == 0) {
		spin->sleeps++;
		return loop->backend->turn(loop, timeout_ms);
	}
	begin = clock_ns(CLOCK_MONOTONIC);
	if (spin->window > 0 && spin_look(loop, begin + spin->window)) {
		spin->found++;
		return loop->backend->turn(loop, 0);
	}
	spin->sleeps++;
	r = loop->backend->turn(loop, timeout_ms);
	waited = clock_ns(CLOCK_MONOTONIC) - begin;
	if (waited > spin->max)
		spin->window = 0;
	else if (spin->window == 0)
		spin->window = WINDOW_MIN < spin->max ? WINDOW_MIN : spin->max;
	else
		spin->window = 2 * spin->window < spin->max ? 2 * spin->window : spin->max;
	return r;
}
