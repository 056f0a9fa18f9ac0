/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/loop/spin.h"

#include <time.h>

/* Nanoseconds: the first window, which doubles from there. */
#define WINDOW_MIN 4000

static uint64_t
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool
look(struct loop *loop, uint64_t end)
{
	loop_submit(loop);
	do {
		if (loop_is_ready(loop))
			return true;
	} while (now_ns() < end);
	return false;
}

/* It slept, and something came after this time altogether. */
static void
adapt(struct spin *spin, uint64_t waited)
{
	if (waited > spin->max) {
		spin->window = 0;
		return;
	}
	spin->window = spin->window ? 2 * spin->window : WINDOW_MIN;
	if (spin->window > spin->max)
		spin->window = spin->max;
}

int
spin_turn(struct spin *spin, struct loop *loop, int timeout_ms)
{
	uint64_t begin;
	int r;

	if (timeout_ms == 0)
		return loop_turn(loop, 0);
	if (spin->max == 0) {
		spin->sleeps++;
		return loop_turn(loop, timeout_ms);
	}
	begin = now_ns();
	if (spin->window > 0 && look(loop, begin + spin->window)) {
		spin->found++;
		return loop_turn(loop, 0);
	}
	spin->sleeps++;
	r = loop_turn(loop, timeout_ms);
	adapt(spin, now_ns() - begin);
	return r;
}
