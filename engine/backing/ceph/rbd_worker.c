/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_worker.h"

#include "common/clock.h"
#include "common/thread.h"

/* The longest sleep, and when to try again to start a thread, in milliseconds. */
#define SLEEP_MS 60000
#define RETRY_MS 250

static struct {
	pthread_mutex_t mutex; /* guards the members below, and the jobs' own; held for moments */
	pthread_cond_t news;   /* for the keeper */
	pthread_cond_t ended;  /* a job has */
	struct rbd_job *jobs;  /* in the queue */
	bool over;
	bool joinable;  /* .last */
	pthread_t last; /* the last thread of a job that has ended, which joins the one before it */
} worker = {.mutex = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

/* Guards .users and .thread; held while the thread is started and joined. */
static struct {
	pthread_mutex_t mutex;
	unsigned int users;
	pthread_t thread;
} keeper = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* The caller holds the mutex. */
static void
worker_queue(struct rbd_job *job, unsigned int ms)
{
	const int64_t due = clock_ms(CLOCK_MONOTONIC) + ms;

	if (!job->queued || due < job->due)
		job->due = due;
	if (!job->queued) {
		job->next = worker.jobs;
		worker.jobs = job;
	}
	job->queued = true;
	pthread_cond_signal(&worker.news);
}

/* Takes a job that is due out of the queue. Returns it, or NULL with the milliseconds until one may
 * be due. The caller holds the mutex. */
static struct rbd_job *
worker_take(unsigned int *ms)
{
	const int64_t now = clock_ms(CLOCK_MONOTONIC);
	int64_t next = now + SLEEP_MS;

	for (struct rbd_job **at = &worker.jobs; *at; at = &(*at)->next) {
		struct rbd_job *job = *at;

		if (job->runs)
			continue;
		if (job->due <= now) {
			*at = job->next;
			job->queued = false;
			job->runs = !job->count;
			return job;
		}
		if (job->due < next)
			next = job->due;
	}
	*ms = (unsigned int)(next - now);
	return NULL;
}

/* After run(), a job that is counted may be gone; after the mutex is released, its image, too. */
static void
worker_run(struct rbd_job *job, bool own_thread)
{
	unsigned int *count = job->count;
	pthread_t before;
	bool join;

	job->run(job);
	pthread_mutex_lock(&worker.mutex);
	if (count)
		--*count;
	else
		job->runs = false;
	pthread_cond_broadcast(&worker.ended);
	pthread_cond_signal(&worker.news);
	join = own_thread && worker.joinable;
	before = worker.last;
	if (own_thread)
		worker.last = pthread_self();
	worker.joinable = worker.joinable || own_thread;
	pthread_mutex_unlock(&worker.mutex);
	/* No code may be left that runs when a program unloads it. */
	if (join)
		pthread_join(before, NULL);
}

static void *
worker_wait(void *data)
{
	worker_run(data, true);
	return NULL;
}

static void
worker_carry_out(struct rbd_job *job)
{
	pthread_t thread;

	if (!job->waits) {
		worker_run(job, false);
	} else if (thread_start(&thread, worker_wait, job) < 0) {
		pthread_mutex_lock(&worker.mutex);
		job->runs = false;
		worker_queue(job, RETRY_MS);
		pthread_cond_broadcast(&worker.ended);
		pthread_mutex_unlock(&worker.mutex);
	}
}

static void *
worker_keep(void *data)
{
	pthread_mutex_lock(&worker.mutex);
	while (!worker.over) {
		unsigned int ms;
		struct rbd_job *job = worker_take(&ms);

		if (!job) {
			thread_wait(&worker.news, &worker.mutex, ms);
			continue;
		}
		pthread_mutex_unlock(&worker.mutex);
		worker_carry_out(job);
		pthread_mutex_lock(&worker.mutex);
	}
	pthread_mutex_unlock(&worker.mutex);
	return data;
}

int
rbd_worker_join(void)
{
	int r = 0;

	pthread_mutex_lock(&keeper.mutex);
	if (keeper.users == 0) {
		thread_condition_init(&worker.news);
		worker.over = false;
		r = thread_start(&keeper.thread, worker_keep, NULL);
	}
	if (r == 0)
		keeper.users++;
	pthread_mutex_unlock(&keeper.mutex);
	return r;
}

void
rbd_worker_leave(void)
{
	pthread_mutex_lock(&keeper.mutex);
	if (--keeper.users == 0) {
		pthread_mutex_lock(&worker.mutex);
		worker.over = true;
		pthread_cond_signal(&worker.news);
		pthread_mutex_unlock(&worker.mutex);
		pthread_join(keeper.thread, NULL);
		if (worker.joinable)
			pthread_join(worker.last, NULL);
		worker.joinable = false;
		pthread_cond_destroy(&worker.news);
	}
	pthread_mutex_unlock(&keeper.mutex);
}

void
rbd_job_add(struct rbd_job *job, unsigned int ms)
{
	pthread_mutex_lock(&worker.mutex);
	if (job->count)
		++*job->count;
	worker_queue(job, ms);
	pthread_mutex_unlock(&worker.mutex);
}

void
rbd_job_end(struct rbd_job *job)
{
	struct rbd_job **at = &worker.jobs;

	pthread_mutex_lock(&worker.mutex);
	while (job->runs)
		pthread_cond_wait(&worker.ended, &worker.mutex);
	while (job->queued && *at != job)
		at = &(*at)->next;
	if (job->queued)
		*at = job->next;
	job->queued = false;
	pthread_mutex_unlock(&worker.mutex);
}

void
rbd_jobs_await(const unsigned int *count)
{
	pthread_mutex_lock(&worker.mutex);
	while (*count > 0)
		pthread_cond_wait(&worker.ended, &worker.mutex);
	pthread_mutex_unlock(&worker.mutex);
}
