/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The jobs of images in Ceph, without an image.
 */
#include "engine/backing/ceph/rbd_worker.h"

#include "tests/lib/suite.h"

#include "common/clock.h"
#include "common/container_of.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Longer than any test, in milliseconds. */
#define NEVER_MS 3600000

struct work {
	struct rbd_job job;
	pthread_mutex_t gate; /* while it is held, the job goes no further */
	_Atomic int begun, ended;
	unsigned int again; /* how often to add itself */
};

static void
work_run(struct rbd_job *job)
{
	struct work *work = container_of(job, struct work, job);

	atomic_fetch_add(&work->begun, 1);
	if (work->again > 0) {
		work->again--;
		rbd_job_add(job, 0);
	}
	pthread_mutex_lock(&work->gate);
	pthread_mutex_unlock(&work->gate);
	atomic_fetch_add(&work->ended, 1);
}

static void
work_init(struct work *work, bool waits)
{
	*work = (struct work){
		.job = {.run = work_run, .waits = waits},
		.gate = PTHREAD_MUTEX_INITIALIZER,
	};
}

static void
await(_Atomic int *number, int value)
{
	while (atomic_load(number) < value)
		sched_yield();
}

static void
setup(void)
{
	ck_assert_int_eq(rbd_worker_join(), 0);
}

static void
teardown(void)
{
	rbd_worker_leave();
}

START_TEST(jobs_that_wait_hold_up_no_others)
{
	struct work waiting[3], clock;

	work_init(&clock, false);
	for (int i = 0; i < 3; i++) {
		work_init(&waiting[i], true);
		pthread_mutex_lock(&waiting[i].gate);
		rbd_job_add(&waiting[i].job, 0);
		await(&waiting[i].begun, 1);
	}
	rbd_job_add(&clock.job, 1);
	await(&clock.ended, 1);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(waiting[i].ended, 0);
		pthread_mutex_unlock(&waiting[i].gate);
		rbd_job_end(&waiting[i].job);
		ck_assert_int_eq(waiting[i].ended, 1);
	}
	rbd_job_end(&clock.job);
}
END_TEST

START_TEST(job_runs_again_after_itself)
{
	struct work work;

	work_init(&work, true);
	pthread_mutex_lock(&work.gate);
	rbd_job_add(&work.job, 0);
	await(&work.begun, 1);
	rbd_job_add(&work.job, 0);
	rbd_job_add(&work.job, NEVER_MS);
	usleep(20000);
	ck_assert_int_eq(work.begun, 1);
	pthread_mutex_unlock(&work.gate);
	await(&work.ended, 2);
	rbd_job_end(&work.job);
	ck_assert_int_eq(work.begun, 2);
}
END_TEST

START_TEST(job_runs_as_soon_as_anyone_wants)
{
	struct work work;

	work_init(&work, false);
	rbd_job_add(&work.job, NEVER_MS);
	rbd_job_add(&work.job, 1);
	rbd_job_add(&work.job, NEVER_MS);
	await(&work.ended, 1);
	usleep(20000);
	ck_assert_int_eq(work.begun, 1);
	/* It is in the queue again if it ran before the last line that adds it. */
	rbd_job_end(&work.job);
}
END_TEST

START_TEST(job_that_adds_itself_ends)
{
	struct work work, other;

	work_init(&work, _i);
	work_init(&other, false);
	work.again = 1000000;
	rbd_job_add(&other.job, NEVER_MS);
	rbd_job_add(&work.job, 0);
	await(&work.ended, 3);
	rbd_job_end(&work.job);
	ck_assert(!work.job.queued);
	ck_assert(other.job.queued);
	rbd_job_end(&other.job);
	rbd_job_end(&other.job);
	ck_assert_int_eq(other.begun, 0);
}
END_TEST

static _Atomic int freed;

static void
free_itself(struct rbd_job *job)
{
	free(job);
	atomic_fetch_add(&freed, 1);
}

START_TEST(counted_jobs_may_free_themselves)
{
	unsigned int count = 0;

	for (int i = 0; i < 10; i++) {
		struct rbd_job *job = malloc(sizeof(*job));

		ck_assert_ptr_nonnull(job);
		*job = (struct rbd_job){.run = free_itself, .waits = true, .count = &count};
		rbd_job_add(job, (unsigned int)i);
	}
	rbd_jobs_await(&count);
	ck_assert_int_eq(freed, 10);
}
END_TEST

START_TEST(worker_begins_anew)
{
	struct work work;

	work_init(&work, false);
	rbd_worker_leave();
	ck_assert_int_eq(rbd_worker_join(), 0);
	ck_assert_int_eq(rbd_worker_join(), 0);
	rbd_worker_leave();
	rbd_job_add(&work.job, 0);
	await(&work.ended, 1);
	rbd_job_end(&work.job);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "worker", .begin = setup, .end = teardown},
		{.test = jobs_that_wait_hold_up_no_others},
		{.test = job_runs_again_after_itself},
		{.test = job_runs_as_soon_as_anyone_wants},
		{.test = job_that_adds_itself_ends, .last = 2},
		{.test = counted_jobs_may_free_themselves},
		{.test = worker_begins_anew},
		{0},
	};

	return suite_run("rbd_worker", cases);
}
