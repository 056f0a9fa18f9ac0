/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which basic blocks of the product have run, in all runs of this program.
 */
#ifndef TESTS_SIMULATION_COVERAGE_H
#define TESTS_SIMULATION_COVERAGE_H

extern char __executable_start[], etext[];

/* For each byte of the program's code; NULL: it is not asked for. */
extern char *coverage_seen;

static inline void
coverage_note(const void *code)
{
	if (coverage_seen)
		coverage_seen[(const char *)code - __executable_start] = 1;
}

void
coverage_begin(void);

/* Writes the addresses that were noted, as hexadecimal numbers. */
void
coverage_write(const char *path);

#endif
