/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The trace: what happens in a simulation, in words. Its hash is the same for each run of a seed,
 * so no line contains an address or anything of the real machine. The last lines are kept, and
 * printed if the run fails.
 */
#ifndef TESTS_SIMULATION_TRACE_H
#define TESTS_SIMULATION_TRACE_H

#include <stdbool.h>
#include <stdint.h>

/* Begins anew. `loud`: prints each line at once. */
void
trace_begin(uint64_t seed, bool loud);

/* The time, the number of the turn, and the name of who runs, which must stay until the next call.
 */
void
trace_note(int64_t time, uint64_t turn, const char *name);

__attribute__((format(printf, 1, 2))) void
trace(const char *format, ...);

struct trace_verdict {
	bool failed;
	const char *format; /* of the reason: the same for failures of one kind */
};

/* A failure is noted there, and not printed. */
void
trace_tell(struct trace_verdict *verdict);

uint64_t
trace_hash(void);

/* Prints the last lines, the seed and the reason, and ends the program: a fault has been found. */
__attribute__((format(printf, 1, 2))) _Noreturn void
trace_fail(const char *format, ...);

#endif
