/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of the operations of a context. Each context counts for itself, on cache lines of its
 * own; sums are made only when they are asked for.
 */
#ifndef ENGINE_COUNTERS_H
#define ENGINE_COUNTERS_H

#include "common/figure_row.h"

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
	COUNTER_REGISTERED,         /* operations with bytes in memory registered with a ring */
	COUNTER_SHORT_TRANSFERS,    /* transfers of fewer bytes than asked for */
	COUNTER_RETRIES,            /* attempts after EINTR or EAGAIN */
	COUNTERS,
};

/* Their names, and what they are, indexed by enum counter. Fields are offsets in an array of all
 * values. */
extern const struct figure_row counter_rows[COUNTERS];

struct counters {
	_Atomic uint64_t value[COUNTERS];
};

/* Adds `n` to a counter. Only for the owner's thread: a plain addition suffices, because no other
 * thread writes. */
static inline void
counter_add(struct counters *counters, enum counter counter, uint64_t n)
{
	_Atomic uint64_t *value = &counters->value[counter];

	atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/* Returns the value of a counter. Any thread may call it. */
static inline uint64_t
counter_read(const struct counters *counters, enum counter counter)
{
	return atomic_load_explicit(&counters->value[counter], memory_order_relaxed);
}

#endif
