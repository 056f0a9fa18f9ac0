/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's clocks as numbers. The caller names the clock: CLOCK_MONOTONIC stands still while
 * the machine is suspended, CLOCK_BOOTTIME does not. A CLOCK_..._COARSE costs less, but is up to
 * 4 ms late.
 */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_SECOND UINT64_C(1000000000)

static inline uint64_t
clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

/* Signed, so that callers can subtract two times. */
static inline int64_t
clock_ms(clockid_t clock)
{
	return (int64_t)(clock_ns(clock) / 1000000);
}

static inline time_t
clock_seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec;
}

#endif
