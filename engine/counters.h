/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a context has done.  Each context counts for itself, on cache lines of its own; sums are
 * made when somebody asks.
 */
#ifndef ENGINE_COUNTERS_H
#define ENGINE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

enum counter {
	COUNTER_READS,
	COUNTER_READ_BYTES,
	COUNTER_WRITES,
	COUNTER_WRITE_BYTES,
	COUNTER_FLUSHES,
	COUNTER_DISCARDS,
	COUNTER_ZEROES,
	COUNTER_ERRORS,             /* operations that failed */
	COUNTER_BOUNCED,            /* chunks that went through a bounce buffer */
	COUNTER_READ_MODIFY_WRITES, /* blocks */
	COUNTER_SHORT_TRANSFERS,    /* the kernel moved less than asked */
	COUNTER_RETRIES,            /* the kernel asked to try again */
	COUNTERS,
};

/* Their names in a status, by enum counter. */
extern const char *const counter_names[COUNTERS];

struct counters {
	_Atomic uint64_t value[COUNTERS];
};

/* By the owner only: a plain add, since nobody else writes. */
static inline void
counter_add(struct counters *counters, enum counter counter, uint64_t n)
{
	_Atomic uint64_t *value = &counters->value[counter];

	atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/* By anybody. */
static inline uint64_t
counter_read(const struct counters *counters, enum counter counter)
{
	return atomic_load_explicit(&counters->value[counter], memory_order_relaxed);
}

#endif
