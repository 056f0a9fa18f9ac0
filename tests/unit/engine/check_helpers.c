/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/io/helpers.h"

#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define JOBS 100

struct task {
	struct helper_job job;
	pthread_t worker;
	unsigned int done;
};

static struct helpers helpers;
static struct task tasks[JOBS];
static _Atomic unsigned int begun;
static _Atomic bool held;
static unsigned int done_count;

static struct task *
task_of(struct helper_job *job)
{
	return (struct task *)((char *)job - offsetof(struct task, job));
}

static void
work(struct helper_job *job)
{
	task_of(job)->worker = pthread_self();
	atomic_fetch_add(&begun, 1);
	while (atomic_load(&held))
		usleep(1000);
}

static void
done(struct helper_job *job)
{
	task_of(job)->done++;
	done_count++;
}

static void
give(unsigned int i)
{
	tasks[i] = (struct task){.job = {.work = work, .done = done}};
	helpers_give(&helpers, &tasks[i].job);
}

/* As an event loop does: collects jobs only after the event became readable. */
static void
collect_all(unsigned int count)
{
	while (done_count < count) {
		struct pollfd polled = {.fd = helpers.event, .events = POLLIN};
		eventfd_t n;

		ck_assert_int_eq(poll(&polled, 1, -1), 1);
		eventfd_read(helpers.event, &n);
		helpers_collect(&helpers);
	}
	ck_assert_uint_eq(done_count, count);
	ck_assert_uint_eq(helpers.under_way, 0);
}

static unsigned int
running(void)
{
	unsigned int n;

	pthread_mutex_lock(&helpers.mutex);
	n = helpers.running;
	pthread_mutex_unlock(&helpers.mutex);
	return n;
}

static void
await_running(unsigned int n)
{
	while (running() != n)
		usleep(10000);
}

static void
set_up(void)
{
	atomic_store(&begun, 0);
	atomic_store(&held, false);
	done_count = 0;
	log_capture_begin();
	helpers_init(&helpers, eventfd(0, EFD_CLOEXEC));
}

static void
tear_down(void)
{
	helpers_fini(&helpers);
	close(helpers.event);
	log_capture_end();
}

START_TEST(no_thread_is_there_before_there_is_work)
{
	ck_assert_uint_eq(running(), 0);
	give(0);
	collect_all(1);
	ck_assert(!pthread_equal(tasks[0].worker, pthread_self()));
	ck_assert_uint_eq(running(), 1);
}
END_TEST

START_TEST(every_job_is_done_once)
{
	for (unsigned int i = 0; i < JOBS; i++)
		give(i);
	collect_all(JOBS);
	for (unsigned int i = 0; i < JOBS; i++)
		ck_assert_uint_eq(tasks[i].done, 1);
}
END_TEST

START_TEST(job_that_waits_holds_up_none_behind_it_and_not_the_giver)
{
	atomic_store(&held, true);
	for (unsigned int i = 0; i < JOBS; i++)
		give(i);
	while (atomic_load(&begun) < HELPERS)
		usleep(1000);
	helpers_collect(&helpers);
	ck_assert_uint_eq(done_count, 0);
	ck_assert_uint_eq(running(), HELPERS);
	atomic_store(&held, false);
	collect_all(JOBS);
}
END_TEST

START_TEST(idle_helpers_end_and_others_are_started_when_there_is_work_again)
{
	for (unsigned int round = 1; round <= 2; round++) {
		for (unsigned int i = 0; i < JOBS; i++)
			give(i);
		collect_all(round * JOBS);
		await_running(0);
	}
}
END_TEST

START_TEST(reserved_helpers_stay_and_are_all_that_there_are)
{
	ck_assert_int_eq(helpers_reserve(&helpers, 4, true), 0);
	ck_assert_int_eq(helpers_reserve(&helpers, 4, true), 0);
	ck_assert_uint_eq(running(), 4);
	for (unsigned int i = 0; i < JOBS; i++)
		give(i);
	ck_assert_uint_eq(running(), 4);
	collect_all(JOBS);
	sleep(3);
	ck_assert_uint_eq(running(), 4);
	give(0);
	collect_all(JOBS + 1);
}
END_TEST

START_TEST(reserved_helper_stays_when_the_others_end)
{
	ck_assert_int_eq(helpers_reserve(&helpers, 1, false), 0);
	ck_assert_uint_eq(running(), 1);
	atomic_store(&held, true);
	for (unsigned int i = 0; i < JOBS; i++)
		give(i);
	ck_assert_uint_eq(running(), HELPERS);
	atomic_store(&held, false);
	collect_all(JOBS);
	await_running(1);
	sleep(3);
	ck_assert_uint_eq(running(), 1);
	give(0);
	collect_all(JOBS + 1);
}
END_TEST

static void
use_up_threads(bool all)
{
	for (unsigned int i = 0; i < HELPERS; i++)
		helpers.helper[i].started = all;
}

START_TEST(giver_works_where_no_thread_can_be_started)
{
	use_up_threads(true);
	give(0);
	use_up_threads(false);
	ck_assert_uint_eq(done_count, 0);
	collect_all(1);
	ck_assert(pthread_equal(tasks[0].worker, pthread_self()));
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "no thread can be started"));
	give(1);
	collect_all(2);
	ck_assert(!pthread_equal(tasks[1].worker, pthread_self()));
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "helpers", .begin = set_up, .end = tear_down, .seconds = 20},
		{.test = no_thread_is_there_before_there_is_work},
		{.test = every_job_is_done_once},
		{.test = job_that_waits_holds_up_none_behind_it_and_not_the_giver},
		{.test = idle_helpers_end_and_others_are_started_when_there_is_work_again},
		{.test = reserved_helpers_stay_and_are_all_that_there_are},
		{.test = reserved_helper_stays_when_the_others_end},
		{.test = giver_works_where_no_thread_can_be_started},
		{0},
	};

	return suite_run("helpers", cases);
}
