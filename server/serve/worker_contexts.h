/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's contexts of images, for worker.c; connections find theirs by worker_context().  On the
 * worker's thread.
 */
#ifndef SERVER_SERVE_WORKER_CONTEXTS_H
#define SERVER_SERVE_WORKER_CONTEXTS_H

struct worker;

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
