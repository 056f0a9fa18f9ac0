/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/request/traffic.h"

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

const char *
traffic_op_name(unsigned int op)
{
	switch (op) {
	case TRAFFIC_CACHE: return "cache";
	case TRAFFIC_BLOCK_STATUS: return "block_status";
	case TRAFFIC_OTHER: return "other";
	default: return io_op_name((enum io_op)op);
	}
}

uint64_t
traffic_changes(const struct traffic *traffic, unsigned int threads)
{
	uint64_t changes = 0;

	for (unsigned int i = 0; i < threads; i++)
		changes += atomic_load_explicit(&traffic[i].changes, memory_order_relaxed);
	return changes;
}

static void
add_op(struct traffic_sum *sum, const struct traffic *traffic, unsigned int op)
{
	for (unsigned int bucket = 0; bucket < TRAFFIC_BUCKETS; bucket++) {
		uint64_t requests =
			atomic_load_explicit(&traffic->latency[op][bucket], memory_order_relaxed);

		sum->latency[op][bucket] += requests;
		sum->requests[op] += requests;
	}
	sum->bytes[op] += atomic_load_explicit(&traffic->bytes[op], memory_order_relaxed);
	sum->errors[op] += atomic_load_explicit(&traffic->errors[op], memory_order_relaxed);
}

void
traffic_sum(const struct traffic *traffic, unsigned int threads, struct traffic_sum *sum)
{
	*sum = (struct traffic_sum){0};
	for (unsigned int i = 0; i < threads; i++) {
		sum->under_way += atomic_load_explicit(&traffic[i].under_way, memory_order_relaxed);
		sum->held += atomic_load_explicit(&traffic[i].held, memory_order_relaxed);
		sum->held_ns += atomic_load_explicit(&traffic[i].held_ns, memory_order_relaxed);
		for (unsigned int op = 0; op < TRAFFIC_OPS; op++)
			add_op(sum, &traffic[i], op);
	}
}
