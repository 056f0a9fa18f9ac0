/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/io/helpers.h"

#include "common/log.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

/* A helper that has had nothing to do for so many seconds ends. */
#define IDLE_LIMIT 2

/* Bytes of a helper's stack, which needs little: there may be many of them. */
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

/* NULL: there was nothing to do for long, or there never will be again.  With the mutex held. */
static struct helper_job *
wait_for_job(struct helpers *helpers)
{
	struct timespec limit;
	int r = 0;

	clock_gettime(CLOCK_MONOTONIC, &limit);
	limit.tv_sec += IDLE_LIMIT;
	helpers->idle++;
	while (!helpers->queue.first && !helpers->stop) {
		if (!helpers->reserved && r == ETIMEDOUT)
			break;
		if (helpers->reserved)
			pthread_cond_wait(&helpers->work, &helpers->mutex);
		else
			r = pthread_cond_timedwait(&helpers->work, &helpers->mutex, &limit);
	}
	helpers->idle--;
	if (!helpers->queue.first)
		return NULL;
	helpers->waiting--;
	return jobs_pop(&helpers->queue);
}

/* With the mutex held. */
static void
job_done(struct helpers *helpers, struct helper_job *job)
{
	/* Who finds something there knows that the context's thread has been told. */
	if (!helpers->done.first)
		eventfd_write(helpers->event, 1);
	jobs_append(&helpers->done, job);
}

static void *
help(void *data)
{
	struct helper *self = data;
	struct helpers *helpers = self->helpers;
	struct helper_job *job;

	pthread_mutex_lock(&helpers->mutex);
	while ((job = wait_for_job(helpers)) != NULL) {
		pthread_mutex_unlock(&helpers->mutex);
		job->work(job);
		pthread_mutex_lock(&helpers->mutex);
		job_done(helpers, job);
	}
	helpers->running--;
	self->over = true;
	pthread_mutex_unlock(&helpers->mutex);
	return NULL;
}

static void
join(struct helper *helper)
{
	pthread_join(helper->thread, NULL);
	helper->started = helper->over = false;
}

/* Signals are for the program's own threads. */
static int
create_thread(struct helper *helper)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int r = pthread_attr_init(&attributes);

	if (r != 0)
		return -r;
	pthread_attr_setstacksize(&attributes, HELPER_STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&helper->thread, &attributes, help, helper);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -r;
}

/* With the mutex held: a thread counts as running from here on.  0, or -errno; -EAGAIN, too, when
 * all are. */
static int
start_one(struct helpers *helpers)
{
	struct helper *helper = helpers->helper;
	int r;

	while (helper < helpers->helper + HELPERS && helper->started && !helper->over)
		helper++;
	if (helper == helpers->helper + HELPERS)
		return -EAGAIN;
	/* It has nothing to do any more but to leave, and that takes no mutex. */
	if (helper->started)
		join(helper);
	r = create_thread(helper);
	if (r == 0) {
		helper->started = true;
		helpers->running++;
	}
	return r;
}

void
helpers_init(struct helpers *helpers, int event)
{
	pthread_condattr_t attributes;

	*helpers = (struct helpers){.event = event};
	jobs_init(&helpers->queue);
	jobs_init(&helpers->done);
	for (unsigned int i = 0; i < HELPERS; i++)
		helpers->helper[i].helpers = helpers;
	pthread_mutex_init(&helpers->mutex, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&helpers->work, &attributes);
	pthread_condattr_destroy(&attributes);
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
			join(&helpers->helper[i]);
	}
	pthread_cond_destroy(&helpers->work);
	pthread_mutex_destroy(&helpers->mutex);
}

void
helpers_reserve(struct helpers *helpers)
{
	pthread_mutex_lock(&helpers->mutex);
	helpers->reserved = true;
	while (helpers->running < HELPERS_RESERVED && start_one(helpers) == 0)
		;
	pthread_mutex_unlock(&helpers->mutex);
}

/* With the mutex held, which is let go of meanwhile: no thread will do it. */
static void
work_here(struct helpers *helpers, int err)
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
		job_done(helpers, job);
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
	if (helpers->waiting > helpers->idle && !(helpers->reserved && helpers->running > 0))
		r = start_one(helpers);
	if (helpers->running == 0)
		work_here(helpers, r);
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
