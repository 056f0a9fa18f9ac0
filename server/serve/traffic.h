/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts of the requests that one thread has done, and has under way, for the clients of one image.
 * Only that thread writes them, on cache lines of its own; sums are made when they are asked for.
 */
#ifndef SERVER_SERVE_TRAFFIC_H
#define SERVER_SERVE_TRAFFIC_H

#include "engine/io/io.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#define TRAFFIC_OPS (IO_ZERO + 1)

/* The first is for less than a microsecond, each that follows for less than twice as much as the
 * one before, the last one for all above: 18 minutes. */
#define TRAFFIC_BUCKETS 32

struct traffic {
	alignas(64) _Atomic uint64_t under_way; /* requests whose reply is not sent yet */
	_Atomic uint64_t changes; /* parts of writes, discards and zeroes that have begun */
	_Atomic uint64_t latency[TRAFFIC_OPS][TRAFFIC_BUCKETS]; /* operations, by enum io_op */
};

struct traffic_sum {
	uint64_t under_way;
	uint64_t latency[TRAFFIC_OPS][TRAFFIC_BUCKETS];
};

/* One for each of `threads`, by its number; all zero.  The caller frees. NULL: out of memory. */
struct traffic *
traffic_new(unsigned int threads);

/* By the owner only: */

void
traffic_begin(struct traffic *traffic);
void
traffic_end(struct traffic *traffic);

/* An operation took so many nanoseconds. */
void
traffic_count(struct traffic *traffic, enum io_op op, uint64_t duration);

/* A part of a change begins, while its range is held. */
void
traffic_change(struct traffic *traffic);

/* By anybody: */

/* How many changes all of `threads` have counted. */
uint64_t
traffic_changes(const struct traffic *traffic, unsigned int threads);

void
traffic_sum(const struct traffic *traffic, unsigned int threads, struct traffic_sum *sum);

#endif
