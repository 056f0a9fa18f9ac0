/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_silence.h"

#include "common/log.h"

#define LOOK_MS 5000

int
guard_silence_next(const struct guard *guard, int next_ms)
{
	if (guard->plan->source.silence == 0)
		return next_ms;
	return next_ms < 0 ? LOOK_MS : MIN(next_ms, LOOK_MS);
}

void
guard_silence_look(struct guard *guard)
{
	const unsigned int seconds = guard->plan->source.silence;

	if (seconds == 0 || !silence_lasts(&guard->silence, guard->attachment.name, seconds,
					   g_get_monotonic_time()))
		return;
	log_error("%s: its server has answered no request for %u seconds", guard->attachment.name,
		  seconds);
	attachment_end_connection(&guard->attachment, seconds);
	guard->silence = (struct silence){.since = 0};
}
