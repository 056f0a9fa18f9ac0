/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file FAULTS_SHARED, which tests/faults/run shares with the libraries that it preloads.
 * target.py has the same list.
 */
#ifndef FAULTS_SHARED_H
#define FAULTS_SHARED_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum what {
	REWRITE = 1,
	SOCKETS = 2,
	OLD_RING = 4,
	STALL = 8,
	SYNC = 16,
	EVENTS = 32,
	BUSY = 64
};
enum count {
	SHORT,
	ERRORS,
	NOTHING,
	SYNC_ERRORS,
	RECEIVE,
	SEND,
	SUBMIT,
	STALLS,
	DENIED,
	NO_MEMORY,
	ACCEPTS,
	NO_EVENTS,
	BUSY_RINGS,
	LIES,
	WAITS,
	PACED,
	COUNTS
};
enum denied {
	DENY_FILES = 1,
	DENY_EXT_ARG = 2,
	DENY_BUFFERS = 4,
	DENY_RINGS = 8,
	DENY_LARGE_RINGS = 16
};

struct shared {
	_Atomic uint32_t armed;
	uint32_t seed;
	uint32_t rate;        /* one call in so many fails */
	uint32_t what;        /* bits of enum what */
	uint32_t ring_flags;  /* IORING_SETUP_ flags that the older kernel doesn't know */
	uint32_t ring_denies; /* bits of enum denied */
	uint32_t allocation;  /* number of the allocation that fails, from 1; 0: one in `rate` while
				 armed */
	uint32_t ring_entries;         /* most entries of a submission queue; 0: as requested */
	_Atomic uint32_t accept_error; /* errno of each accept4() of the server's own code, while it
					  is not 0 */
	_Atomic uint32_t lost;         /* a write-back fails once, and only the witness is told */
	_Atomic uint32_t gate;         /* not 0: the gate is closed, and calls for the file wait */
	_Atomic uint32_t
		pace;   /* pace of the disk past SLOW_FROM, in MiB per second; 0: no such disk */
	uint64_t inode; /* inode of the file */
	_Atomic uint64_t drawn;
	_Atomic uint64_t allocations; /* number of allocations so far */
	_Atomic uint64_t counts[COUNTS];
};

/* In bytes; past it, the image belongs to no slot of the model. */
#define SLOW_FROM (8 << 20)

extern struct shared *shared;

/* The next random number. */
uint64_t
draw(void);

/* Whether this call is to fail. */
bool
now(enum what what, unsigned int seldom);

void
count(enum count which);

int
one_of(const int *errors, size_t number);

#define ONE_OF(...)                                                                                \
	one_of((const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* Whether the code at this address is the server's or the plugin's own, not the C library's or
 * nbdkit's. */
bool
is_ours(const void *code);

/* The thread stands still now and then: others may run meanwhile. */
void
stall(void);

#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

#endif
