/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backend for tests of the layers above backends.  Its disk is the image's own file, in memory
 * (fake_image.h).  A test chooses what happens to chunks: they are held until they are released,
 * complete in any order, move too little, or fail.
 *
 * It also checks the engine.  These fail the test: a direct transfer whose offset, length or memory
 * is not aligned; an unaligned fallocate() on a block device; a change that does not hold its
 * range; more chunks than the context's depth.
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
#define FAKE_HOSTED 4

enum fake_order {
	FAKE_FIRST_COME,
	FAKE_LAST_COME,
	FAKE_RANDOM,     /* and any number of them at a time */
	FAKE_ONE_BY_ONE, /* first come first, and only what is waited for */
};

/* A chunk as it was when the backend took it, and its result. */
struct fake_event {
	enum chunk_op op;
	bool direct, dsync, dontcache;
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

	/* Set by the test while no chunk is in flight. */
	enum fake_order order;
	unsigned int held;       /* 1u << op: complete only when released */
	int init_result;         /* what init() returns */
	unsigned int run_errors; /* so many calls of run() fail with -EIO */
	unsigned int shorten;    /* one of so many transfers is cut at random; 0: none */

	pthread_mutex_t mutex; /* guards the following */
	pthread_cond_t released;
	struct fake_fault faults[FAKE_FAULTS];
	struct fake_event events[FAKE_EVENTS]; /* the first so many chunks, in order of arrival */
	unsigned int event_count;
	unsigned int done_count;
	unsigned int in_flight, most_in_flight;
	unsigned int waits;    /* calls of run() that were to wait */
	unsigned int contexts; /* that exist */
	int wake[FAKE_HOSTED]; /* events of hosted contexts; 0: unused */
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

/* One of events[] as it is now, while another thread runs the context. */
struct fake_event
fake_look(struct fake *fake, unsigned int event);

/* Waits until the backend has got a chunk of that kind, from another thread. */
void
fake_await(struct fake *fake, enum chunk_op op);

/* How many chunks of a kind the backend got. */
unsigned int
fake_count(struct fake *fake, enum chunk_op op);

/* Waits until at least `least` chunks are in flight, which other threads bring.  Returns how many
 * are. */
unsigned int
fake_in_flight(struct fake *fake, unsigned int least);

/* Forgets events and faults.  No chunk may be in flight. */
void
fake_forget(struct fake *fake);

#endif
