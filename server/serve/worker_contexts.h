/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's contexts of images: a connection gets that of its image from worker_context().  On the
 * worker's thread.
 */
#ifndef SERVER_SERVE_WORKER_CONTEXTS_H
#define SERVER_SERVE_WORKER_CONTEXTS_H

#include "server/serve/worker_state.h"

#include <stdbool.h>
#include <stdint.h>

struct ioctx;
struct served;
struct traffic;
/* A worker's context of an image. */
struct worker_context {
	struct served *served;
	struct ioctx *ctx;
	struct traffic *traffic; /* the part of the image's that this worker writes */
	struct loop_op event;
	struct worker *worker;
	bool submitted;                /* operations that ioctx_run() has not seen yet */
	bool leaving;                  /* to be freed when `event` is not under way any more */
	bool dense;                    /* the image had no holes when holes.c last looked */
	uint64_t data_start, data_end; /* of the image: no hole was there then */
	unsigned int large_reads;      /* in which it could have looked for holes */
	struct worker_context *next;
	bool busy;                        /* it is in the worker's list of busy ones */
	struct worker_context *next_busy; /* in that list */
};

/* Has ioctx_run() called at the end of this turn. */
static inline void
worker_context_mark(struct worker_context *context)
{
	struct worker *worker = context->worker;

	context->submitted = true;
	if (context->busy)
		return;
	context->busy = true;
	context->next_busy = worker->busy;
	worker->busy = context;
}

/* Marks those that want to run again: they poll, or have room now for ios that wait. */
void
worker_contexts_mark_wanting(struct worker *worker);

/* Runs those that are marked.  False: none is. */
bool
worker_contexts_run(struct worker *worker);

/* Takes idle ones from the list of busy ones.  Returns whether one of the others wants to run. */
bool
worker_contexts_rest(struct worker *worker);

/* The worker's context of an image, made on first use; NULL: it can't be (said in the log). */
struct worker_context *
worker_context(struct worker *worker, struct served *served);

/* Frees its context of an image that no connection uses and none will use again, then calls
 * config->forgotten(). */
void
worker_forget(struct worker *worker, struct served *served);

/* Makes those of all exports that there are.  0 or -errno. */
int
worker_contexts_reserve(struct worker *worker);

/* Waits again for the events of those for which that failed before. */
void
worker_contexts_poll(struct worker *worker);

/* Frees those of worker_forget(), for which worker->leaving is true.  Not while completions are
 * called: theirs may be among them. */
void
worker_contexts_free_leaving(struct worker *worker);

/* Frees all; none has anything under way. */
void
worker_contexts_free(struct worker *worker);

#endif
