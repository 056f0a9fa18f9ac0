/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backend for tests of what lies above backends.  Its disk is the image's own file (a memory
 * file: fake_image.h), and what it does with the chunks is the test's choice: keep them until told,
 * complete them in any order, move too little, fail.
 *
 * It also watches over the engine: a direct transfer that isn't aligned in offset, length or
 * memory, a fallocate() on a block device that isn't, a change without its range, or more chunks
 * than the context's depth, fail the test.
 */
#ifndef TESTS_UNIT_FAKE_BACKEND_H
#define TESTS_UNIT_FAKE_BACKEND_H

#include "engine/io/backend.h"
#include "engine/io/chunk.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define FAKE_EVENTS 2048
#define FAKE_FAULTS 8

enum fake_order {
	FAKE_FIRST_COME,
	FAKE_LAST_COME,
	FAKE_RANDOM,     /* and any number of them at a time */
	FAKE_ONE_BY_ONE, /* first come first, and only what is waited for */
};

/* A chunk as it was when the backend took it, and what became of it. */
struct fake_event {
	enum chunk_op op;
	bool direct, registered, dsync;
	int mode;
	const void *buffer;
	uint64_t offset, length;
	bool released; /* held no longer */
	bool done;
	unsigned int done_as; /* how many were done before it */
	int result;
};

struct fake_fault {
	enum chunk_op op;
	unsigned int skip;  /* so many chunks of that kind pass first */
	unsigned int times; /* then so many are hit */
	int result; /* -errno; or the most bytes that are moved, 0 for the end of the file */
};

struct fake {
	struct backend backend; /* image->backend */

	/* The test's, set while no chunk is under way. */
	enum fake_order order;
	unsigned int held;       /* 1u << op: complete only when released */
	int init_result;         /* what init() returns */
	unsigned int run_errors; /* so many calls of run() fail with -EIO */
	unsigned int shorten;    /* one of so many transfers is cut at random; 0: none */

	pthread_mutex_t mutex; /* guards what follows */
	pthread_cond_t released;
	struct fake_fault faults[FAKE_FAULTS];
	struct fake_event events[FAKE_EVENTS]; /* the first so many chunks, in order of arrival */
	unsigned int event_count;
	unsigned int done_count;
	unsigned int in_flight, most_in_flight;
	unsigned int waits;    /* calls of run() that had to wait */
	unsigned int contexts; /* living */
	uint64_t random;
};

void
fake_init(struct fake *fake);
void
fake_fini(struct fake *fake);

/* The next `times` chunks of a kind, after `skip` of them, get this result (see struct fake_fault).
 */
void
fake_fault(struct fake *fake, enum chunk_op op, unsigned int skip, unsigned int times, int result);

/* Lets a held chunk (its number in events[]) complete, or all that are and will be held. */
void
fake_release(struct fake *fake, unsigned int event);
void
fake_release_all(struct fake *fake);

/* How many chunks of a kind the backend got. */
unsigned int
fake_count(struct fake *fake, enum chunk_op op);

/* Chunks that are under way now; waits (other threads bring them) until there are at least `least`.
 */
unsigned int
fake_in_flight(struct fake *fake, unsigned int least);

/* Forgets events and faults. Nothing may be under way. */
void
fake_forget(struct fake *fake);

#endif
