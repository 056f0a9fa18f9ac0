/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads for what an event loop must not do itself, since it can wait for a file system: each
 * hosted I/O context has its own.  They are started when there is something to do, and end when
 * there was nothing for some seconds.
 */
#ifndef ENGINE_IO_HELPERS_H
#define ENGINE_IO_HELPERS_H

#include <pthread.h>
#include <stdbool.h>

/* At once: as many as nbdkit has for a connection. */
#define HELPERS          16
#define HELPERS_RESERVED 4

/* Embedded by its owner, who sets .work and .done and leaves all else alone until done(). */
struct helper_job {
	void (*work)(struct helper_job *job); /* called on a helper's thread */
	void (*done)(struct helper_job *job); /* called after that, on the context's thread; may
						 free the job */
	struct helper_job *next;
};

struct helper_jobs {
	struct helper_job *first, **tail;
};

struct helper {
	struct helpers *helpers;
	pthread_t thread;
	bool started; /* and not joined; the context's thread only */
	bool over;    /* it can be joined without waiting; guarded by the mutex */
};

struct helpers {
	int event;              /* eventfd that tells the context's thread: something is done */
	unsigned int under_way; /* jobs; the context's thread only */

	pthread_mutex_t mutex; /* guards what follows */
	pthread_cond_t work;
	struct helper_jobs queue; /* first come first */
	struct helper_jobs done;
	unsigned int waiting; /* jobs in the queue */
	unsigned int idle;    /* threads that wait for work */
	unsigned int running; /* threads */
	bool reserved;        /* those that there are stay, and no other is started */
	bool stop;

	struct helper helper[HELPERS];
};

/* `event` stays the caller's. */
void
helpers_init(struct helpers *helpers, int event);

/* Nothing may be under way. */
void
helpers_fini(struct helpers *helpers);

/* Starts HELPERS_RESERVED now, which stay, and never another: where there may be no memory for it
 * later. */
void
helpers_reserve(struct helpers *helpers);

/* Has job->work() called soon, and job->done() in a later helpers_collect().  Where no thread can
 * be started, the caller does the work itself: late is better than never. */
void
helpers_give(struct helpers *helpers, struct helper_job *job);

/* Calls done() of the jobs that are. */
void
helpers_collect(struct helpers *helpers);

#endif
