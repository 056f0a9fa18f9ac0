/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine `threads` on an event loop: the loop's thread hands chunks to worker threads of the
 * context, which make the system calls; the context's event tells the loop of their completion.
 */
#include "engine/backend/choice.h"

#include "engine/io/chunk.h"
#include "engine/io/image_state.h"
#include "engine/io/ioctx_state.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>

/* The most threads of one context: as many as nbdkit uses for a connection. */
#define WORKERS 16

struct workers {
	const struct backing *backing;
	int event;

	pthread_mutex_t mutex; /* guards the members below */
	pthread_cond_t work;
	struct chunk *queue; /* oldest first */
	struct chunk **queue_tail;
	struct chunk *done;   /* newest first */
	unsigned int idle;    /* number of threads that wait for work */
	unsigned int waiting; /* number of chunks in .queue */
	bool stop;

	unsigned int started; /* used only by the loop's thread */
	pthread_t threads[WORKERS];
};

static void *
work(void *data)
{
	struct workers *workers = data;

	pthread_mutex_lock(&workers->mutex);
	for (;;) {
		struct chunk *chunk;

		workers->idle++;
		while (!workers->queue && !workers->stop)
			pthread_cond_wait(&workers->work, &workers->mutex);
		workers->idle--;
		if (!workers->queue)
			break;
		chunk = workers->queue;
		workers->queue = chunk->next;
		if (!workers->queue)
			workers->queue_tail = &workers->queue;
		workers->waiting--;
		pthread_mutex_unlock(&workers->mutex);
		chunk->result = chunk_execute(workers->backing, chunk);
		pthread_mutex_lock(&workers->mutex);
		chunk->next = workers->done;
		workers->done = chunk;
		/* If the list was not empty, the loop has been told already. */
		if (!chunk->next)
			eventfd_write(workers->event, 1);
	}
	pthread_mutex_unlock(&workers->mutex);
	return NULL;
}

/* Blocks all signals in the new thread: signals are for the program's own threads. Returns 0 or
 * -errno. */
static int
start_worker(struct workers *workers)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&workers->threads[workers->started], NULL, work, workers);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r == 0)
		workers->started++;
	return -r;
}

static void
workers_free(struct workers *workers)
{
	pthread_mutex_lock(&workers->mutex);
	workers->stop = true;
	pthread_cond_broadcast(&workers->work);
	pthread_mutex_unlock(&workers->mutex);
	while (workers->started > 0)
		pthread_join(workers->threads[--workers->started], NULL);
	pthread_cond_destroy(&workers->work);
	pthread_mutex_destroy(&workers->mutex);
	free(workers);
}

static int
workers_probe(const struct backing *backing, char reason[REASON_MAX])
{
	(void)backing;
	reason[0] = '\0';
	return 0;
}

static int
workers_init(struct ioctx *ctx)
{
	struct workers *workers = calloc(1, sizeof(*workers));
	int r;

	if (!workers)
		return -ENOMEM;
	workers->backing = &ctx->image->backing;
	workers->event = ctx->inbox_event;
	workers->queue_tail = &workers->queue;
	pthread_mutex_init(&workers->mutex, NULL);
	pthread_cond_init(&workers->work, NULL);
	/* One thread must exist; more are started when there is work for them. */
	r = start_worker(workers);
	if (r < 0) {
		workers_free(workers);
		return r;
	}
	ctx->backend_state = workers;
	return 0;
}

static void
workers_reserve(struct ioctx *ctx)
{
	struct workers *workers = ctx->backend_state;

	while (workers->started < WORKERS && start_worker(workers) == 0)
		;
}

static void
workers_fini(struct ioctx *ctx)
{
	workers_free(ctx->backend_state);
}

static void
workers_queue(struct ioctx *ctx, struct chunk *chunk)
{
	struct workers *workers = ctx->backend_state;
	bool more;

	chunk->next = NULL;
	pthread_mutex_lock(&workers->mutex);
	*workers->queue_tail = chunk;
	workers->queue_tail = &chunk->next;
	workers->waiting++;
	more = workers->waiting > workers->idle && workers->started < WORKERS;
	pthread_cond_signal(&workers->work);
	pthread_mutex_unlock(&workers->mutex);
	if (more)
		start_worker(workers);
}

static int
workers_run(struct ioctx *ctx, unsigned int min)
{
	struct workers *workers = ctx->backend_state;
	struct chunk *chunk;

	(void)min; /* a host never waits here */
	pthread_mutex_lock(&workers->mutex);
	chunk = workers->done;
	workers->done = NULL;
	pthread_mutex_unlock(&workers->mutex);
	while (chunk) {
		struct chunk *next = chunk->next;

		/* Comes last, because it may queue the chunk again. */
		chunk_done(ctx, chunk, chunk->result);
		chunk = next;
	}
	return 0;
}

const struct backend backend_threads = {
	.name = "threads",
	.dsync = true,
	.probe = workers_probe,
	.init = workers_init,
	.fini = workers_fini,
	.reserve = workers_reserve,
	.queue = workers_queue,
	.run = workers_run,
};
