/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/request/traffic.h"

#include <stdlib.h>
#include <string.h>

#define FIELD(name_) offsetof(struct traffic_sum, name_)

const struct figure_row traffic_rows[] = {
	[TRAFFIC_UNDER_WAY] = {"nbdloop_requests_in_flight", "gauge", NULL,
			       "Requests of clients whose reply is not sent yet.", NULL, "requests",
			       FIELD(under_way)},
	[TRAFFIC_HELD_NOW] = {"nbdloop_requests_held", "gauge", NULL,
			      "Requests that a limit holds back now, one of a connection.", NULL,
			      "limited_now", FIELD(held_now)},
	[TRAFFIC_HELD] = {"nbdloop_held_requests", "counter", NULL,
			  "Requests that a limit has held back.", NULL, "limited", FIELD(held)},
	[TRAFFIC_HELD_US] = {"nbdloop_held_seconds", "counter", "seconds",
			     "Time that requests have waited for a limit.", NULL, "limited_us",
			     FIELD(held_us)},
};

const struct figure_row traffic_op_rows[] = {
	{"nbdloop_requests", "counter", NULL, "Requests of clients that were answered.", NULL,
	 "requests", FIELD(requests)},
	{"nbdloop_request_bytes", "counter", "bytes",
	 "Length of the requests that succeeded, holes included.", NULL, "bytes", FIELD(bytes)},
	{"nbdloop_request_errors", "counter", NULL,
	 "Requests of clients that were answered with an error.", NULL, "errors", FIELD(errors)},
};

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
	uint64_t held_ns = 0;

	*sum = (struct traffic_sum){0};
	for (unsigned int i = 0; i < threads; i++) {
		sum->under_way += atomic_load_explicit(&traffic[i].under_way, memory_order_relaxed);
		sum->held += atomic_load_explicit(&traffic[i].held, memory_order_relaxed);
		sum->held_now += atomic_load_explicit(&traffic[i].held_now, memory_order_relaxed);
		held_ns += atomic_load_explicit(&traffic[i].held_ns, memory_order_relaxed);
		for (unsigned int op = 0; op < TRAFFIC_OPS; op++)
			add_op(sum, &traffic[i], op);
	}
	sum->held_us = held_ns / 1000;
}
