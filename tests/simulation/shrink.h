/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a failing run smaller: repeats it without more and more of its events, as long as it fails
 * for the same reason, and prints those that it needs.
 */
#ifndef TESTS_SIMULATION_SHRINK_H
#define TESTS_SIMULATION_SHRINK_H

#include <stdint.h>

/* Takes about so many seconds. Ends the program with what the last run prints. `run` makes one run
 * of the seed. */
_Noreturn void
shrink_run(uint64_t seed, double seconds, void (*run)(uint64_t seed));

#endif
