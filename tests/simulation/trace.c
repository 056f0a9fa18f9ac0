/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LINES 120
#define LINE  200

static char lines[LINES][LINE];
static uint64_t count, hash, seed_of_run, turn;
static struct trace_verdict *told; /* NULL: it is printed */
static bool loud_run;
static int64_t now;
static const char *who = "";

void
trace_note(int64_t time, uint64_t number, const char *name)
{
	turn = number;
	now = time;
	who = name;
}

void
trace_begin(uint64_t seed, bool loud)
{
	count = 0;
	hash = UINT64_C(0xcbf29ce484222325);
	seed_of_run = seed;
	loud_run = loud;
}

void
trace(const char *format, ...)
{
	char *line = lines[count++ % LINES];
	va_list arguments;
	int n = snprintf(line, LINE, "%4" PRId64 ".%06" PRId64 " %-12s ", now / 1000000000,
			 now / 1000 % 1000000, who);

	va_start(arguments, format);
	vsnprintf(line + n, LINE - (size_t)n, format, arguments);
	va_end(arguments);
	for (const char *at = line; *at; at++)
		hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
	if (loud_run)
		fprintf(stderr, "%s\n", line);
}

void
trace_tell(struct trace_verdict *verdict)
{
	told = verdict;
}

uint64_t
trace_hash(void)
{
	return hash;
}

void
trace_fail(const char *format, ...)
{
	va_list arguments;

	if (told) {
		*told = (struct trace_verdict){.failed = true, .format = format};
		_exit(1);
	}
	if (!loud_run) {
		for (uint64_t i = count < LINES ? 0 : count - LINES; i < count; i++)
			fprintf(stderr, "%s\n", lines[i % LINES]);
	}
	fprintf(stderr, "seed %" PRIu64 " fails in turn %" PRIu64 ": ", seed_of_run, turn);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	if (getenv("SIMULATION_ABORT"))
		abort();
	/* No destructor of the product may run. */
	_exit(1);
}
