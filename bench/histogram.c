/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/histogram.h"

/* Each power of 2 has the same number of buckets; the first of all are a nanosecond wide. */
static unsigned int
bucket_of(uint64_t ns)
{
	unsigned int power;

	if (ns < HISTOGRAM_STEPS)
		return (unsigned int)ns;
	power = 63 - (unsigned int)__builtin_clzll(ns) - HISTOGRAM_SHIFT;
	return (power + 1) * HISTOGRAM_STEPS + (unsigned int)(ns >> power) % HISTOGRAM_STEPS;
}

static uint64_t
bucket_start(unsigned int bucket)
{
	if (bucket < HISTOGRAM_STEPS)
		return bucket;
	return (uint64_t)(HISTOGRAM_STEPS + bucket % HISTOGRAM_STEPS)
	       << (bucket / HISTOGRAM_STEPS - 1);
}

void
histogram_add(struct histogram *histogram, uint64_t ns)
{
	histogram->counts[bucket_of(ns)]++;
}

void
histogram_merge(struct histogram *to, const struct histogram *from)
{
	for (unsigned int b = 0; b < HISTOGRAM_BUCKETS; b++)
		to->counts[b] += from->counts[b];
}

uint64_t
histogram_percentile(const struct histogram *histogram, unsigned int percent)
{
	uint64_t total = 0, seen = 0;

	for (unsigned int b = 0; b < HISTOGRAM_BUCKETS; b++)
		total += histogram->counts[b];
	for (unsigned int b = 0; b < HISTOGRAM_BUCKETS; b++) {
		seen += histogram->counts[b];
		if (total && seen * 100 >= total * percent)
			return bucket_start(b);
	}
	return 0;
}
