/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tests/faults/run and the libraries that it preloads share: the file FAULTS_SHARED. target.py
 * has the same list.
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
	uint32_t rate;        /* one in so many */
	uint32_t what;        /* of enum what */
	uint32_t ring_flags;  /* of IORING_SETUP_, which the older kernel doesn't know */
	uint32_t ring_denies; /* of enum denied */
	uint32_t allocation;  /* the one that fails, the first is 1; 0: one in `rate` while armed */
	uint32_t ring_entries; /* at the most, of requests to submit; 0: what is asked for */
	_Atomic uint32_t accept_error; /* of accept4() by our own code, as long as it is not 0 */
	_Atomic uint32_t lost;         /* a write-back, of which only the witness is told, once */
	_Atomic uint32_t gate;         /* not 0: calls for the file wait */
	_Atomic uint32_t
		pace;   /* MiB per second that its disk takes behind SLOW_FROM; 0: no such disk */
	uint64_t inode; /* the file's */
	_Atomic uint64_t drawn;
	_Atomic uint64_t allocations; /* so many there were */
	_Atomic uint64_t counts[COUNTS];
};

/* Bytes; what is behind belongs to no slot of the model. */
#define SLOW_FROM (8 << 20)

extern struct shared *shared;

/* The next random number. */
uint64_t
draw(void);

/* Whether it is to go wrong this time. */
bool
now(enum what what, unsigned int seldom);

void
count(enum count which);

int
one_of(const int *errors, size_t number);

#define ONE_OF(...)                                                                                \
	one_of((const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* Whether code at this address is the server's or the plugin's own: neither the C library's nor
 * nbdkit's. */
bool
is_ours(const void *code);

/* A thread stands still now and then: others may go on meanwhile. */
void
stall(void);

#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

#endif
