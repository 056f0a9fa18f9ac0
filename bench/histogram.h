/* SPDX-License-Identifier: BSD-3-Clause */
/* A histogram of times, precise to 3 %. */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SHIFT   5
#define HISTOGRAM_STEPS   (1u << HISTOGRAM_SHIFT) /* buckets for each power of 2 */
#define HISTOGRAM_BUCKETS (64 * HISTOGRAM_STEPS)

/* Begins as zeroes. */
struct histogram {
	uint64_t counts[HISTOGRAM_BUCKETS];
};

void
histogram_add(struct histogram *histogram, uint64_t ns);

/* Adds all counts of the one to the other. */
void
histogram_merge(struct histogram *to, const struct histogram *from);

/* The start of the bucket that holds this percentile, in ns; 0 if the histogram is empty. */
uint64_t
histogram_percentile(const struct histogram *histogram, unsigned int percent);

#endif
