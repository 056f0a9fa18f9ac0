/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/nbd/rng.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

uint64_t
rng_seed(void)
{
	const char *text = getenv("LOOP_SEED");
	uint64_t seed = 0;

	if (text)
		seed = strtoull(text, NULL, 0);
	else if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		seed = (uint64_t)time(NULL);
	return seed ? seed : 1;
}

void
rng_init(struct rng *rng, uint64_t seed, uint64_t stream)
{
	rng->state = seed + stream * 0xd1342543de82ef95u;
	rng_next(rng);
}

/* splitmix64: one multiplication chain, no bad seeds. */
uint64_t
rng_next(struct rng *rng)
{
	uint64_t z = rng->state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t
rng_below(struct rng *rng, uint64_t limit)
{
	return rng_next(rng) % limit;
}

uint64_t
rng_length(struct rng *rng, uint64_t limit)
{
	unsigned int bits = 64 - (unsigned int)__builtin_clzll(limit);
	uint64_t ceiling = UINT64_C(1) << (1 + rng_below(rng, bits));

	return 1 + rng_below(rng, ceiling < limit ? ceiling : limit);
}

void
rng_fill(struct rng *rng, void *buffer, size_t length)
{
	unsigned char *at = buffer;

	while (length > 0) {
		uint64_t word = rng_next(rng);
		size_t piece = length < sizeof(word) ? length : sizeof(word);

		memcpy(at, &word, piece);
		at += piece;
		length -= piece;
	}
}
