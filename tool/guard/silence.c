/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/silence.h"

#include "tool/system_file.h"

#include <inttypes.h>
#include <stdio.h>

/* Reads, writes, discards and flushes that the device has completed, and how many requests it is
 * working on: Documentation/block/stat.rst of the kernel. */
static bool
read_figures(const char *name, uint64_t *answered, uint64_t *in_flight)
{
	g_autofree char *text = system_file_read("/sys/block/%s/stat", name);
	uint64_t reads, writes, discards, flushes;

	if (!text || sscanf(text,
			    "%" SCNu64 "%*s%*s%*s%" SCNu64 "%*s%*s%*s%" SCNu64 "%*s%*s%" SCNu64
			    "%*s%*s%*s%" SCNu64,
			    &reads, &writes, in_flight, &discards, &flushes) != 5)
		return false;
	*answered = reads + writes + discards + flushes;
	return true;
}

bool
silence_lasts(struct silence *silence, const char *name, unsigned int seconds, gint64 now)
{
	uint64_t answered, in_flight;

	if (!read_figures(name, &answered, &in_flight))
		return false;
	if (in_flight == 0 || silence->since == 0 || answered != silence->answered) {
		*silence = (struct silence){.answered = answered, .since = now};
		return false;
	}
	return now - silence->since >= seconds * G_USEC_PER_SEC;
}
