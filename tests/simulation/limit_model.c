/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/limit_model.h"

#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <inttypes.h>

/* The last operations, which is as far as windows go back. */
#define OPERATIONS 128

/* Connections may keep what they had got before the rate was changed. */
#define KEPT 4

static bool limits_last;
static uint64_t rate;
static int64_t since;
static int64_t sent[OPERATIONS]; /* the newest one is at (count - 1) % OPERATIONS */
static uint64_t count;

void
limit_model_begin(bool lasting)
{
	limits_last = lasting;
	limit_model_set(0);
}

void
limit_model_set(uint64_t per_second)
{
	rate = limits_last ? per_second : 0;
	since = scheduler_now();
	count = 0;
}

/* Returns how many of the last operations began not before that time. All have been answered. */
static uint64_t
limit_model_count(int64_t begin)
{
	const uint64_t known = count < OPERATIONS ? count : OPERATIONS;
	uint64_t number = 0;

	for (uint64_t i = 0; i < known; i++)
		number += sent[i] >= begin;
	return number;
}

void
limit_model_answered(int64_t sent_at)
{
	const uint64_t known = count < OPERATIONS ? count + 1 : OPERATIONS;
	const uint64_t burst = rate < 20 ? 2 : rate / 10 + 1;

	/* Time does not tell what came first within a moment. */
	if (!rate || sent_at <= since)
		return;
	sent[count++ % OPERATIONS] = sent_at;
	for (uint64_t i = 0; i < known; i++) {
		const double seconds = (double)(scheduler_now() - sent[i]) / 1e9;
		const uint64_t number = limit_model_count(sent[i]);

		if ((double)number > (double)(burst + KEPT) + (double)rate * seconds)
			trace_fail("%" PRIu64 " operations in %.3f seconds, but the limit is "
				   "%" PRIu64 " per second",
				   number, seconds, rate);
	}
}
