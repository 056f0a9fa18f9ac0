/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * systemd is told that the server is alive only after each event loop, and the main thread, has
 * turned since it was asked.  The test is systemd and the main thread.
 */
#include "server/daemon/watchdog.h"

#include "server/daemon/readiness.h"
#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/server/one_worker.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Microseconds; the server is asked every 100 ms. */
#define INTERVAL 400000

static int manager, wake;
static struct watchdog *watchdog;
static pthread_t main_thread;
static _Atomic bool main_hangs, main_over;
static pthread_mutex_t barrier = PTHREAD_MUTEX_INITIALIZER;

/* The main thread of a server: it turns when it is woken. */
static void *
turn(void *data)
{
	eventfd_t count;

	(void)data;
	while (eventfd_read(wake, &count) == 0 && !atomic_load(&main_over)) {
		if (!atomic_load(&main_hangs))
			watchdog_main_turned(watchdog);
	}
	return NULL;
}

static void
become_manager(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const struct timeval patience = {.tv_sec = 20};
	char name[64], *error = NULL;
	int length = snprintf(name, sizeof(name), "@nbdloop-watchdog-%d", (int)getpid());

	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	memcpy(address.sun_path, name, (size_t)length);
	address.sun_path[0] = '\0';
	ck_assert_int_eq(bind(manager, (struct sockaddr *)&address,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length)),
			 0);
	setsockopt(manager, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setenv("NOTIFY_SOCKET", name, 1);
	setenv("WATCHDOG_USEC", "400000", 1);
	snprintf(name, sizeof(name), "%d", (int)getpid());
	setenv("WATCHDOG_PID", name, 1);
	ck_assert_int_eq(readiness_init(&error), 0);
	ck_assert_uint_eq(readiness_watchdog(), INTERVAL);
	ck_assert_ptr_null(getenv("WATCHDOG_USEC"));
}

static void
begin(int way)
{
	worker_prepare();
	become_manager();
	wake = eventfd(0, EFD_CLOEXEC);
	worker_begin(way, &(struct fake_facts){.size = 4096});
	atomic_store(&main_hangs, false);
	ck_assert_int_eq(watchdog_start(&watchdog, &the_worker, 1, wake, INTERVAL), 0);
	ck_assert_int_eq(pthread_create(&main_thread, NULL, turn, NULL), 0);
}

static void
end(void)
{
	watchdog_stop(watchdog);
	atomic_store(&main_over, true);
	eventfd_write(wake, 1);
	pthread_join(main_thread, NULL);
	worker_finish();
	watchdog_free(watchdog);
	close(wake);
	close(manager);
}

static void
expect_sign(void)
{
	char state[64] = "";

	ck_assert_int_gt(recv(manager, state, sizeof(state) - 1, 0), 0);
	ck_assert_str_eq(state, "WATCHDOG=1");
}

/* Until nothing has come for as long as systemd waits. */
static void
expect_silence(const char *text)
{
	const struct timespec pause = {.tv_nsec = INTERVAL * 1000}, poll = {.tv_nsec = 1000000};
	unsigned int tries = 0, signs;
	char state[64];

	while (!log_capture_has(LOG_LEVEL_ERROR, text))
		nanosleep(&poll, NULL);
	do {
		ck_assert_uint_lt(tries++, 20);
		nanosleep(&pause, NULL);
		for (signs = 0; recv(manager, state, sizeof(state), MSG_DONTWAIT) > 0; signs++)
			;
	} while (signs > 0);
}

static void
hang(struct worker *worker, struct worker_message *message)
{
	(void)worker;
	(void)message;
	pthread_mutex_lock(&barrier);
	pthread_mutex_unlock(&barrier);
}

START_TEST(loop_that_hangs_is_named_and_ends_the_signs)
{
	struct worker_message message = {.deliver = hang};

	begin(_i);
	for (unsigned int i = 0; i < 3; i++)
		expect_sign();
	pthread_mutex_lock(&barrier);
	worker_post(&the_worker, &message);
	expect_silence("event loop 1 hangs");
	pthread_mutex_unlock(&barrier);
	for (unsigned int i = 0; i < 3; i++)
		expect_sign();
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "event loop 1 runs again"));
	end();
}
END_TEST

START_TEST(main_thread_that_hangs_is_named_and_ends_the_signs)
{
	begin(_i);
	expect_sign();
	atomic_store(&main_hangs, true);
	expect_silence("the main thread hangs");
	atomic_store(&main_hangs, false);
	watchdog_main_turned(watchdog);
	expect_sign();
	expect_sign();
	end();
}
END_TEST

/* Stopped while a loop hangs, it waits for nothing. */
START_TEST(end_does_not_wait_for_a_loop_that_hangs)
{
	struct worker_message message = {.deliver = hang};

	begin(_i);
	expect_sign();
	pthread_mutex_lock(&barrier);
	worker_post(&the_worker, &message);
	expect_silence("event loop 1 hangs");
	watchdog_stop(watchdog);
	pthread_mutex_unlock(&barrier);
	atomic_store(&main_over, true);
	eventfd_write(wake, 1);
	pthread_join(main_thread, NULL);
	worker_finish();
	watchdog_free(watchdog);
	close(wake);
	close(manager);
}
END_TEST

/* Such as an nbdloopd that another service's process starts. */
START_TEST(watchdog_of_another_process_is_not_fed)
{
	char *error = NULL;

	setenv("NOTIFY_SOCKET", "@nbdloop-nobody", 1);
	setenv("WATCHDOG_USEC", "400000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	ck_assert_int_eq(readiness_init(&error), 0);
	ck_assert_uint_eq(readiness_watchdog(), 0);
}
END_TEST

START_TEST(socket_of_another_kind_is_refused)
{
	char *error = NULL;

	setenv("NOTIFY_SOCKET", "vsock:2:1234", 1);
	ck_assert_int_lt(readiness_init(&error), 0);
	ck_assert_str_eq(error,
			 "NOTIFY_SOCKET=vsock:2:1234: it must be the path of a socket, or @NAME");
	free(error);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "watchdog"},
		{.test = loop_that_hangs_is_named_and_ends_the_signs, .last = worker_ways()},
		{.test = main_thread_that_hangs_is_named_and_ends_the_signs, .last = worker_ways()},
		{.test = end_does_not_wait_for_a_loop_that_hangs, .last = worker_ways()},
		{.test = watchdog_of_another_process_is_not_fed},
		{.test = socket_of_another_kind_is_refused},
		{0},
	};

	return suite_run("watchdog", cases);
}
