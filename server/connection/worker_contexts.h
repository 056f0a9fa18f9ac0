/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's contexts for images: a connection gets that of its image from worker_context(). To be
 * used on the worker's thread only.
 */
#ifndef SERVER_CONNECTION_WORKER_CONTEXTS_H
#define SERVER_CONNECTION_WORKER_CONTEXTS_H

#include "server/request/holes.h"
#include "server/connection/worker_state.h"

#include <stdbool.h>
#include <stdint.h>

struct ioctx;
struct offer;
struct traffic;

/* A worker's context for an image. */
struct worker_context {
	struct offer *offer;
	struct ioctx *ctx;
	struct traffic *traffic; /* this worker's counters of the export */
	struct loop_op event;
	struct worker *worker;
	bool submitted; /* operations that ioctx_run() has not seen yet */
	bool leaving;   /* to be freed when `event` has completed */
	struct holes_known holes;
	struct worker_context *next;
	bool busy;                        /* in the worker's list of busy contexts */
	struct worker_context *next_busy; /* in that list */
};

/* Lets ioctx_run() be called at the end of this turn. */
static inline void
worker_context_mark(struct worker_context *context)
{
	struct worker *worker = context->worker;

	context->submitted = worker->submitted = true;
	if (context->busy)
		return;
	context->busy = true;
	context->next_busy = worker->busy;
	worker->busy = context;
}

/* Marks contexts that want to run again: they poll, or have room now for waiting ios. */
void
worker_contexts_mark_wanting(struct worker *worker);

/* Runs the marked contexts. False: none is marked. */
bool
worker_contexts_run(struct worker *worker);

/* Takes idle contexts off the list of busy ones. Returns whether one of the others wants to run. */
bool
worker_contexts_rest(struct worker *worker);

/* The worker's context for an offer's image, made on first use; NULL: it can't be made (logged). */
struct worker_context *
worker_context(struct worker *worker, struct offer *offer);

/* Frees the context for an offer that no connection uses or will use again, then calls
 * config->forgotten(). */
void
worker_forget(struct worker *worker, struct offer *offer);

/* Makes the contexts for all offers. 0 or -errno. */
int
worker_contexts_reserve(struct worker *worker);

/* Logs that the poll of an event failed (`result`: -errno), whatever the error: the event must not
 * be lost, and is polled again soon. */
void
worker_poll_failed(struct worker *worker, int result);

/* Polls the events again for which that failed before. */
void
worker_contexts_poll(struct worker *worker);

/* Frees the contexts of worker_forget(); worker->leaving tells whether some are left. Not to be
 * called from a completion, which may be that of a freed context. */
void
worker_contexts_free_leaving(struct worker *worker);

/* Frees all contexts, which are idle. */
void
worker_contexts_free(struct worker *worker);

#endif
