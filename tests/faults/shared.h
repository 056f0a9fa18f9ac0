/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tests/faults/run and the libraries that it preloads share: the file FAULTS_SHARED.  target.py has the same list.
 */
#ifndef FAULTS_SHARED_H
#define FAULTS_SHARED_H

#include <stdatomic.h>
#include <stdint.h>

enum what { REWRITE = 1, SOCKETS = 2, OLD_RING = 4, STALL = 8, SYNC = 16 };
enum count { SHORT, ERRORS, NOTHING, SYNC_ERRORS, RECEIVE, SEND, SUBMIT, STALLS, DENIED, NO_MEMORY, COUNTS };
enum denied { DENY_FILES = 1, DENY_EXT_ARG = 2, DENY_BUFFERS = 4, DENY_RINGS = 8 };

struct shared {
	_Atomic uint32_t armed;
	uint32_t seed;
	uint32_t rate; /* one in so many */
	uint32_t what; /* of enum what */
	uint32_t ring_flags; /* of IORING_SETUP_, which the older kernel doesn't know */
	uint32_t ring_denies; /* of enum denied */
	uint32_t allocation; /* the one that fails, the first is 1; 0: one in `rate` while armed */
	uint32_t unused;
	_Atomic uint64_t drawn;
	_Atomic uint64_t allocations; /* so many there were */
	_Atomic uint64_t counts[COUNTS];
};

extern struct shared *shared;

/* The next random number. */
uint64_t
draw(void);

#endif
