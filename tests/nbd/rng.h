/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reproducible random numbers: a failing test prints its seed, and LOOP_SEED=seed repeats its
 * choices, but not the order in which threads ran.
 */
#ifndef TESTS_NBD_RNG_H
#define TESTS_NBD_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

/* The environment's LOOP_SEED, or a fresh seed.  Never 0. */
uint64_t
rng_seed(void);

/* Generators of one seed differ by their `stream`; each thread has its own. */
void
rng_init(struct rng *rng, uint64_t seed, uint64_t stream);

uint64_t
rng_next(struct rng *rng);

/* A number from [0, limit), all equally likely; limit >= 1. */
uint64_t
rng_below(struct rng *rng, uint64_t limit);

/* A number from [1, limit], with every power of two equally likely. */
uint64_t
rng_length(struct rng *rng, uint64_t limit);

void
rng_fill(struct rng *rng, void *buffer, size_t length);

#endif
