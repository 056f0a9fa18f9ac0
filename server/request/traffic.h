/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts of the requests that one thread has answered, and has in flight, for the clients of one
 * image. Only that thread writes them, on cache lines of its own; a reader adds up those of all
 * threads.
 */
#ifndef SERVER_REQUEST_TRAFFIC_H
#define SERVER_REQUEST_TRAFFIC_H

#include "common/figure_row.h"
#include "engine/io/io.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

/* What clients ask for: operations of an image by their enum io_op, and more. */
enum {
	TRAFFIC_CACHE = IO_ZERO + 1,
	TRAFFIC_BLOCK_STATUS,
	TRAFFIC_OTHER, /* a command that the server doesn't know */
	TRAFFIC_OPS,
};

/* The first bucket is for less than a microsecond, each further one for less than twice as much as
 * the one before, and the last one for all longer times: above 18 minutes. */
#define TRAFFIC_BUCKETS 32

struct traffic {
	alignas(64) _Atomic uint64_t under_way; /* requests whose reply is not sent yet */
	_Atomic uint64_t changes; /* parts of writes, discards and zeroes that have begun */
	_Atomic uint64_t latency[TRAFFIC_OPS][TRAFFIC_BUCKETS]; /* requests that were answered */
	_Atomic uint64_t bytes[TRAFFIC_OPS];  /* of those that succeeded, holes included */
	_Atomic uint64_t errors[TRAFFIC_OPS]; /* requests that were answered with an error */
	_Atomic uint64_t held;                /* requests that a limit has held back */
	_Atomic uint64_t held_now;            /* requests that a limit holds back now */
	_Atomic uint64_t held_ns; /* how long, together: before the time that `latency` counts */
};

struct traffic_sum {
	uint64_t under_way;
	uint64_t latency[TRAFFIC_OPS][TRAFFIC_BUCKETS];
	uint64_t requests[TRAFFIC_OPS]; /* all buckets together */
	uint64_t bytes[TRAFFIC_OPS], errors[TRAFFIC_OPS];
	uint64_t held, held_now, held_us;
};

/* Figures of all requests, and of those of each kind: the first of TRAFFIC_OPS numbers that follow
 * each other. Fields are offsets in struct traffic_sum. */
enum {
	TRAFFIC_UNDER_WAY,
	TRAFFIC_HELD_NOW,
	TRAFFIC_HELD,
	TRAFFIC_HELD_US,
	TRAFFIC_ROWS,

	TRAFFIC_OP_ROWS = 3,
};

extern const struct figure_row traffic_rows[TRAFFIC_ROWS];
extern const struct figure_row traffic_op_rows[TRAFFIC_OP_ROWS];

/* One for each thread, by its number; all zero. The caller frees. NULL: out of memory. */
struct traffic *
traffic_new(unsigned int threads);

/* ---- by the owner only */

/* A plain addition, since no other thread writes. */
static inline void
traffic_add(_Atomic uint64_t *value, uint64_t n)
{
	atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static inline void
traffic_begin(struct traffic *traffic)
{
	traffic_add(&traffic->under_way, 1);
}

static inline void
traffic_end(struct traffic *traffic)
{
	traffic_add(&traffic->under_way, UINT64_MAX);
}

/* A part of a change begins, while its range is held. */
static inline void
traffic_change(struct traffic *traffic)
{
	traffic_add(&traffic->changes, 1);
}

/* A request is answered, `duration` nanoseconds after it came. */
static inline void
traffic_count(struct traffic *traffic, unsigned int op, uint64_t duration)
{
	uint64_t us = duration / 1000;
	unsigned int bucket = us ? 64 - (unsigned int)__builtin_clzll(us) : 0;

	if (bucket >= TRAFFIC_BUCKETS)
		bucket = TRAFFIC_BUCKETS - 1;
	traffic_add(&traffic->latency[op][bucket], 1);
}

/* ---- by any thread */

/* "read", "write" and so on. */
const char *
traffic_op_name(unsigned int op);

/* The changes that all threads have counted. */
uint64_t
traffic_changes(const struct traffic *traffic, unsigned int threads);

void
traffic_sum(const struct traffic *traffic, unsigned int threads, struct traffic_sum *sum);

#endif
