/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chance: the generator from which a simulation draws all its decisions. The same seed gives the
 * same run.
 */
#ifndef TESTS_SIMULATION_CHANCE_H
#define TESTS_SIMULATION_CHANCE_H

#include <stdbool.h>
#include <stdint.h>

void
chance_seed(uint64_t seed);

/* Returns the beginning of a stream of choices, which depends on the seed and the number only. */
uint64_t
chance_stream(uint64_t number);

/* Draws from that stream from now on. Each fiber has its own, so that it decides the same if others
 * do something else. */
void
chance_use(uint64_t *stream);

/* Returns a number from 0 to limit - 1; 0 if limit is 0. */
uint64_t
chance_below(uint64_t limit);

/* Returns a number from `from` to `to`, both included. */
uint64_t
chance_between(uint64_t from, uint64_t to);

/* Returns whether a thing happens that happens once in `n` times; never, if n is 0. */
bool
chance_once_in(uint64_t n);

#endif
