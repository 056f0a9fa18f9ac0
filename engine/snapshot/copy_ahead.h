/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copying for several small changes at once. Each copy alone costs a thread two switches and the
 * disk a message; together they cost little more than one.
 */
#ifndef ENGINE_SNAPSHOT_COPY_AHEAD_H
#define ENGINE_SNAPSHOT_COPY_AHEAD_H

#include "engine/snapshot/copy.h"
#include "engine/snapshot/part_reads.h"

/* The most changes at once, and the most bytes that one of them may touch, counted in whole
 * granules. */
#define AHEAD_CHANGES PART_READS_MAX
#define AHEAD_BYTES   (32u << 10)

struct ahead_range {
	uint64_t start, end; /* of the file, in bytes; of at most AHEAD_BYTES */
};

/*
 * Copies the granules of the ranges that are not copied yet, by direct I/O. It may leave some out:
 * those that another thread copies, and all if there is no direct I/O or no memory. So
 * copy_keep() must follow for each range, which finds nothing to do as a rule. Waits for the disk.
 */
void
copy_ahead(struct copy *copy, struct part_reads *reads, const struct ahead_range *ranges,
	   unsigned int count);

#endif
