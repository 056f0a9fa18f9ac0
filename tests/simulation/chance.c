/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/chance.h"

static uint64_t seed_of_run, first, *state = &first;

void
chance_seed(uint64_t seed)
{
	seed_of_run = first = seed;
	state = &first;
}

/* SplitMix64. */
static uint64_t
chance_next(void)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t
chance_stream(uint64_t number)
{
	uint64_t *before = state, stream = seed_of_run * UINT64_C(0xd1342543de82ef95) + number;

	state = &stream;
	stream = chance_next();
	state = before;
	return stream;
}

void
chance_use(uint64_t *stream)
{
	state = stream;
}

uint64_t
chance_below(uint64_t limit)
{
	return limit ? chance_next() % limit : 0;
}

uint64_t
chance_between(uint64_t from, uint64_t to)
{
	return from + chance_below(to - from + 1);
}

bool
chance_once_in(uint64_t n)
{
	return n && chance_next() % n == 0;
}
