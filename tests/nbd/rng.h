/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random numbers that can be had again: a failing test prints its seed, and LOOP_SEED=seed
 * repeats its choices (not the order in which threads came to run).
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

/* `stream` tells generators of one seed apart, one per thread. */
void
rng_init(struct rng *rng, uint64_t seed, uint64_t stream);

uint64_t
rng_next(struct rng *rng);

/* Evenly from [0, limit); limit >= 1. */
uint64_t
rng_below(struct rng *rng, uint64_t limit);

/* From [1, limit], small numbers as likely as large ones (every power of two alike). */
uint64_t
rng_length(struct rng *rng, uint64_t limit);

void
rng_fill(struct rng *rng, void *buffer, size_t length);

#endif
