/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads for calls that may wait for a file system, which an event loop must not make itself. Each
 * hosted I/O context has its own threads. They start when there is work, and end after some seconds
 * without any.
 */
#ifndef ENGINE_IO_HELPERS_H
#define ENGINE_IO_HELPERS_H

#include <pthread.h>
#include <stdbool.h>

/* The most threads at once: as many as nbdkit uses for a connection. */
#define HELPERS 16

/* Embedded by its owner, which sets .work and .done and does not touch the job from helpers_give()
 * until done(). */
struct helper_job {
	void (*work)(struct helper_job *job); /* called on a helper's thread, or on the caller's if
						 no thread can be started */
	void (*done)(struct helper_job *job); /* called after work(), on the context's thread; may
						 free the job */
	struct helper_job *next;
};

struct helper_jobs {
	struct helper_job *first, **tail;
};

struct helper {
	struct helpers *helpers;
	pthread_t thread;
	bool started; /* and not yet joined; used only by the context's thread */
	bool over;    /* a join will not wait; guarded by the mutex */
};

struct helpers {
	int event;              /* eventfd that tells the context's thread that a job is done */
	unsigned int under_way; /* jobs between helpers_give() and done(); used only by the
				   context's thread */

	pthread_mutex_t mutex; /* guards the members below */
	pthread_cond_t work;
	struct helper_jobs queue; /* oldest first */
	struct helper_jobs done;
	unsigned int waiting;  /* number of jobs in .queue */
	unsigned int idle;     /* number of threads that wait for work */
	unsigned int running;  /* number of threads */
	unsigned int reserved; /* so many threads stay when there is no work */
	unsigned int most;     /* when so many threads are running, no other is started */
	bool stop;

	struct helper helper[HELPERS];
};

/* Starts no thread yet. `event` is an eventfd of the caller's, which must outlive the helpers. */
void
helpers_init(struct helpers *helpers, int event);

/* Ends and joins all threads. No job may be in flight. */
void
helpers_fini(struct helpers *helpers);

/* Starts threads until `count` are running; so many stay from then on. With `no_more`, for
 * processes that may have no memory for a thread later, no other is started after that. Returns 0,
 * or -errno if no thread is running. */
int
helpers_reserve(struct helpers *helpers, unsigned int count, bool no_more);

/* Queues a job: a thread calls job->work() soon, and a later helpers_collect() calls job->done().
 * If no thread can be started, the caller's thread does the work itself, because late is better
 * than never. */
void
helpers_give(struct helpers *helpers, struct helper_job *job);

/* Calls done() of all jobs whose work is complete. Only on the context's thread, at any time. */
void
helpers_collect(struct helpers *helpers);

#endif
