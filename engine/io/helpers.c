/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/io/helpers.h"

#include "common/log.h"
#include "common/thread.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

/* A helper ends after this many seconds without work. */
#define IDLE_LIMIT 2

/* Stack size of a helper, in bytes. It is small because there may be many helpers, and each needs
 * little. */
#define HELPER_STACK ((size_t)256 << 10)

static void
jobs_init(struct helper_jobs *jobs)
{
	jobs->first = NULL;
	jobs->tail = &jobs->first;
}

static void
jobs_append(struct helper_jobs *jobs, struct helper_job *job)
{
	job->next = NULL;
	*jobs->tail = job;
	jobs->tail = &job->next;
}

static struct helper_job *
jobs_pop(struct helper_jobs *jobs)
{
	struct helper_job *job = jobs->first;

	jobs->first = job->next;
	if (!jobs->first)
		jobs->tail = &jobs->first;
	return job;
}

/* Returns the next job, or NULL if the thread shall end: it had no work for IDLE_LIMIT, or the
 * helpers are being stopped. The caller holds the mutex. */
static struct helper_job *
helper_wait(struct helpers *helpers)
{
	struct timespec limit;

	clock_gettime(CLOCK_MONOTONIC, &limit);
	limit.tv_sec += IDLE_LIMIT;
	helpers->idle++;
	while (!helpers->queue.first && !helpers->stop) {
		if (helpers->running <= helpers->reserved)
			pthread_cond_wait(&helpers->work, &helpers->mutex);
		else if (pthread_cond_timedwait(&helpers->work, &helpers->mutex, &limit) ==
				 ETIMEDOUT &&
			 helpers->running > helpers->reserved)
			break;
	}
	helpers->idle--;
	if (!helpers->queue.first)
		return NULL;
	helpers->waiting--;
	return jobs_pop(&helpers->queue);
}

/* The caller holds the mutex. */
static void
helper_job_done(struct helpers *helpers, struct helper_job *job)
{
	/* If the list is not empty, the context's thread has been told already. */
	if (!helpers->done.first)
		eventfd_write(helpers->event, 1);
	jobs_append(&helpers->done, job);
}

static void *
helper_run(void *data)
{
	struct helper *self = data;
	struct helpers *helpers = self->helpers;
	struct helper_job *job;

	thread_confine(THREAD_HELPER);
	pthread_mutex_lock(&helpers->mutex);
	while ((job = helper_wait(helpers)) != NULL) {
		pthread_mutex_unlock(&helpers->mutex);
		job->work(job);
		pthread_mutex_lock(&helpers->mutex);
		helper_job_done(helpers, job);
	}
	helpers->running--;
	self->over = true;
	pthread_mutex_unlock(&helpers->mutex);
	return NULL;
}

static void
helper_join(struct helper *helper)
{
	pthread_join(helper->thread, NULL);
	helper->started = helper->over = false;
}

/* Blocks all signals in the new thread: signals are for the program's own threads. Returns 0 or
 * -errno. */
static int
helper_create(struct helper *helper)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int r = pthread_attr_init(&attributes);

	if (r != 0)
		return -r;
	pthread_attr_setstacksize(&attributes, HELPER_STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&helper->thread, &attributes, helper_run, helper);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -r;
}

/* The caller holds the mutex. On success, the thread counts as running from here on. Returns 0 or
 * -errno; -EAGAIN also if all threads are running. */
static int
helpers_start_one(struct helpers *helpers)
{
	struct helper *helper = helpers->helper;
	int r;

	while (helper < helpers->helper + HELPERS && helper->started && !helper->over)
		helper++;
	if (helper == helpers->helper + HELPERS)
		return -EAGAIN;
	/* That thread is about to return and takes no mutex any more, so the join does not wait. */
	if (helper->started)
		helper_join(helper);
	r = helper_create(helper);
	if (r == 0) {
		helper->started = true;
		helpers->running++;
	}
	return r;
}

void
helpers_init(struct helpers *helpers, int event)
{
	*helpers = (struct helpers){.event = event, .most = HELPERS};
	jobs_init(&helpers->queue);
	jobs_init(&helpers->done);
	for (unsigned int i = 0; i < HELPERS; i++)
		helpers->helper[i].helpers = helpers;
	pthread_mutex_init(&helpers->mutex, NULL);
	thread_condition_init(&helpers->work);
}

void
helpers_fini(struct helpers *helpers)
{
	assert(helpers->under_way == 0);
	pthread_mutex_lock(&helpers->mutex);
	helpers->stop = true;
	pthread_cond_broadcast(&helpers->work);
	pthread_mutex_unlock(&helpers->mutex);
	for (unsigned int i = 0; i < HELPERS; i++) {
		if (helpers->helper[i].started)
			helper_join(&helpers->helper[i]);
	}
	pthread_cond_destroy(&helpers->work);
	pthread_mutex_destroy(&helpers->mutex);
}

int
helpers_reserve(struct helpers *helpers, unsigned int count, bool no_more)
{
	int r = 0;

	pthread_mutex_lock(&helpers->mutex);
	helpers->reserved = count;
	while (r == 0 && helpers->running < count)
		r = helpers_start_one(helpers);
	if (helpers->running > 0)
		r = 0;
	if (no_more)
		helpers->most = helpers->running > 0 ? helpers->running : 1;
	pthread_mutex_unlock(&helpers->mutex);
	return r;
}

/* Does all queued jobs on this thread, because no thread will do them. The caller holds the mutex,
 * which is released during the work. */
static void
helpers_work_here(struct helpers *helpers, int err)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 60);

	if (log_limit_pass(&limit, NULL))
		log_warning(
			"no thread can be started: %s; an event loop makes calls that can wait for a disk",
			strerror(-err));
	while (helpers->queue.first) {
		struct helper_job *job = jobs_pop(&helpers->queue);

		helpers->waiting--;
		pthread_mutex_unlock(&helpers->mutex);
		job->work(job);
		pthread_mutex_lock(&helpers->mutex);
		helper_job_done(helpers, job);
	}
}

void
helpers_give(struct helpers *helpers, struct helper_job *job)
{
	int r = 0;

	helpers->under_way++;
	pthread_mutex_lock(&helpers->mutex);
	jobs_append(&helpers->queue, job);
	helpers->waiting++;
	if (helpers->waiting > helpers->idle && helpers->running < helpers->most)
		r = helpers_start_one(helpers);
	if (helpers->running == 0)
		helpers_work_here(helpers, r);
	else
		pthread_cond_signal(&helpers->work);
	pthread_mutex_unlock(&helpers->mutex);
}

void
helpers_collect(struct helpers *helpers)
{
	struct helper_job *job;

	pthread_mutex_lock(&helpers->mutex);
	job = helpers->done.first;
	jobs_init(&helpers->done);
	pthread_mutex_unlock(&helpers->mutex);
	while (job) {
		struct helper_job *next = job->next;

		helpers->under_way--;
		job->done(job);
		job = next;
	}
}
