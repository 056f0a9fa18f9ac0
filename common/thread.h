/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that do work for others.
 */
#ifndef COMMON_THREAD_H
#define COMMON_THREAD_H

#include <pthread.h>

/* Starts a thread without signals: they are for the program's own threads. Returns 0, and the
 * caller joins it; or -errno. */
int
thread_start(pthread_t *thread, void *(*run)(void *data), void *data);

/* Waits until the condition is signalled, or `ms` milliseconds are over, or for less. The caller
 * holds the mutex; the condition's clock is CLOCK_MONOTONIC. */
void
thread_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, unsigned int ms);

/* Initializes a condition for that. */
void
thread_condition_init(pthread_cond_t *condition);

/* How many processors this process may use, at least 1: with taskset(1) or in a container, fewer
 * than the machine has. */
unsigned int
thread_processors(void);

/* What a thread does; a program may confine its threads by that. */
enum thread_kind {
	THREAD_LOOP,       /* an event loop */
	THREAD_HELPER,     /* makes calls for images that may wait (engine/io/helpers.h) */
	THREAD_RECORDER,   /* of checkpoints; these two may be older than the confinement */
	THREAD_SWEEPER,    /* of the page cache */
	THREAD_HANDSHAKES, /* of TLS */
	THREAD_HTTP,
	THREAD_FETCHES, /* asks nbdloop-fetch (engine/backing/http/fetcher.h); may be older, too */
	THREAD_RINGS,   /* makes io_uring's rings (engine/backend/restriction.h) */
};
#define THREAD_KINDS (THREAD_RINGS + 1)

/* Has thread_confine() call this function, from now on; NULL: none, as at the start. It doesn't
 * return if the thread must not go on unconfined. */
void
thread_set_confinement(void (*confine)(enum thread_kind kind));

/* Gives the calling thread its kind's name, which tools show. */
void
thread_set_name(enum thread_kind kind);

/* Gives the calling thread that name, and confines it to what its kind needs, if the program has
 * asked for that, and if this has not been done yet. To be called at the thread's start, and, in a
 * thread that may be older than the confinement, before each piece of work. */
void
thread_confine(enum thread_kind kind);

#endif
