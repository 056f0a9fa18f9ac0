/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/serve/traffic.h"

#include <stdlib.h>
#include <string.h>

struct traffic *
traffic_new(unsigned int threads)
{
	struct traffic *traffic =
		aligned_alloc(alignof(struct traffic), threads * sizeof(*traffic));

	if (traffic)
		memset(traffic, 0, threads * sizeof(*traffic));
	return traffic;
}

/* A plain add, since no other thread writes. */
static void
add(_Atomic uint64_t *value, uint64_t n)
{
	atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

void
traffic_begin(struct traffic *traffic)
{
	add(&traffic->under_way, 1);
}

void
traffic_end(struct traffic *traffic)
{
	add(&traffic->under_way, UINT64_MAX);
}

static unsigned int
bucket_of(uint64_t duration)
{
	unsigned int bucket = 0;

	for (uint64_t us = duration / 1000; us > 0 && bucket < TRAFFIC_BUCKETS - 1; us >>= 1)
		bucket++;
	return bucket;
}

void
traffic_count(struct traffic *traffic, enum io_op op, uint64_t duration)
{
	add(&traffic->latency[op][bucket_of(duration)], 1);
}

void
traffic_change(struct traffic *traffic)
{
	add(&traffic->changes, 1);
}

uint64_t
traffic_changes(const struct traffic *traffic, unsigned int threads)
{
	uint64_t changes = 0;

	for (unsigned int i = 0; i < threads; i++)
		changes += atomic_load_explicit(&traffic[i].changes, memory_order_relaxed);
	return changes;
}

void
traffic_sum(const struct traffic *traffic, unsigned int threads, struct traffic_sum *sum)
{
	*sum = (struct traffic_sum){0};
	for (unsigned int i = 0; i < threads; i++) {
		sum->under_way += atomic_load_explicit(&traffic[i].under_way, memory_order_relaxed);
		for (unsigned int op = 0; op < TRAFFIC_OPS; op++) {
			for (unsigned int bucket = 0; bucket < TRAFFIC_BUCKETS; bucket++)
				sum->latency[op][bucket] += atomic_load_explicit(
					&traffic[i].latency[op][bucket], memory_order_relaxed);
		}
	}
}
