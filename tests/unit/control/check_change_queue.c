/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes over the control socket run one after the other, while other requests are answered; and
 * what happens to the client that asked for one.
 */
#include "tests/lib/suite.h"
#include "tests/unit/control_fixture.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RESIZE_ANSWER "{\"resize\":\"-\",\"on\":0,\"data\":\"d\"}"

static void
begin(void)
{
	fixture_begin_serving();
	fixture.hold = true;
	fixture.changing_most = 0;
}

static void
end(void)
{
	fixture.hold = false;
	fixture_end();
}

static void
await_change(void)
{
	for (int i = 0; i < 5000 && !fixture.changing; i++)
		usleep(1000);
	ck_assert_int_eq(fixture.changing, 1);
}

/* A client that asks for a change, and one whose change is running. */
static int
client_with(const char *request)
{
	int fd = client_new();

	client_send(fd, request);
	return fd;
}

static int
client_changing(void)
{
	int fd = client_with("resize\n");

	await_change();
	return fd;
}

static bool
has_answer(int fd, int ms)
{
	struct pollfd answer = {.fd = fd, .events = POLLIN};

	return poll(&answer, 1, ms) == 1;
}

START_TEST(status_is_answered_during_a_change)
{
	int fd = client_changing();

	for (int i = 0; i < 20; i++)
		assert_still_serves();
	ck_assert(!has_answer(fd, 0));
	fixture.hold = false;
	ck_assert_str_eq(client_line(fd), RESIZE_ANSWER);
	close(fd);
}
END_TEST

START_TEST(changes_are_carried_out_one_after_the_other)
{
	int fds[5];

	fds[0] = client_changing();
	for (int i = 1; i < 5; i++)
		fds[i] = client_with("resize\n");
	ck_assert(!has_answer(fds[4], 100));
	ck_assert_int_eq(fixture.handled, 1);
	assert_still_serves();
	fixture.hold = false;
	for (int i = 0; i < 5; i++) {
		ck_assert_str_eq(client_line(fds[i]), RESIZE_ANSWER);
		close(fds[i]);
	}
	ck_assert_int_eq(fixture.handled, 6);
	ck_assert_int_eq(fixture.changing_most, 1);
}
END_TEST

START_TEST(changes_are_carried_out_in_the_order_in_which_they_came)
{
	int first = client_changing(), second, third;

	second = client_with("resize\n");
	usleep(50000);
	third = client_with("set direct-io=on\nresize export=huge\n");
	usleep(50000);
	fixture.hold = false;
	ck_assert_str_eq(client_line(third), "{\"set\":\"-\",\"on\":1,\"data\":\"d\"}");
	/* They were answered before. */
	ck_assert(has_answer(second, 0) && has_answer(first, 0));
	close(first);
	close(second);
	close(third);
}
END_TEST

START_TEST(changes_that_wait_leave_room_for_the_status)
{
	int first = client_changing(), waiting[4], refused;

	for (int i = 0; i < 4; i++)
		waiting[i] = client_with("resize\n");
	usleep(50000);
	refused = client_with("resize\n");
	ck_assert_ptr_nonnull(strstr(client_line(refused), "\"error\":\"too many changes wait"));
	/* Changes of clients that have left keep their turn. */
	for (int i = 0; i < 4; i++)
		close(waiting[i]);
	assert_still_serves();
	fixture.hold = false;
	ck_assert_str_eq(client_line(first), RESIZE_ANSWER);
	client_send(refused, "resize\n");
	ck_assert_str_eq(client_line(refused), RESIZE_ANSWER);
	close(first);
	close(refused);
}
END_TEST

START_TEST(who_waits_for_a_change_has_no_deadline)
{
	int under_way = client_changing(), waiting = client_with("resize\n");

	ck_assert(!has_answer(waiting, 6000));
	fixture.hold = false;
	ck_assert_str_eq(client_line(under_way), RESIZE_ANSWER);
	ck_assert_str_eq(client_line(waiting), RESIZE_ANSWER);
	/* The client has time for another request. */
	client_send(waiting, "status\n");
	ck_assert_str_eq(client_line(waiting), STATUS_ANSWER);
	close(under_way);
	close(waiting);
}
END_TEST

START_TEST(request_behind_a_change_is_answered_behind_it)
{
	int fd = client_changing();

	client_send(fd, "status\n");
	ck_assert(!has_answer(fd, 100));
	fixture.hold = false;
	ck_assert_str_eq(client_line(fd), RESIZE_ANSWER);
	ck_assert_str_eq(client_line(fd), STATUS_ANSWER);
	close(fd);
}
END_TEST

START_TEST(client_that_leaves_during_its_change_does_no_harm)
{
	int waiting;

	close(client_changing());
	close(client_with("resize\n"));
	waiting = client_with("resize\n");
	assert_still_serves();
	fixture.hold = false;
	ck_assert_str_eq(client_line(waiting), RESIZE_ANSWER);
	close(waiting);
	/* Their changes are carried out nevertheless. */
	ck_assert_int_eq(fixture.handled, 4);
	assert_still_serves();
}
END_TEST

/* Some time after the end has begun, when there is no socket any more. */
static void *
release_soon(void *data)
{
	while (access(fixture.path, F_OK) == 0)
		usleep(1000);
	usleep(100000);
	fixture.hold = false;
	return data;
}

START_TEST(free_waits_for_the_change_that_is_under_way_and_begins_no_other)
{
	int under_way = client_changing(), waiting = client_with("resize\n");
	pthread_t thread;

	ck_assert(!has_answer(waiting, 100));
	ck_assert_int_eq(pthread_create(&thread, NULL, release_soon, NULL), 0);
	control_socket_free(fixture.control);
	fixture.control = NULL;
	ck_assert_int_eq(fixture.changing, 0);
	ck_assert_int_eq(fixture.handled, 1);
	pthread_join(thread, NULL);
	ck_assert_str_eq(client_line(under_way), RESIZE_ANSWER);
	ck_assert_str_eq(client_line(under_way), "(end)");
	ck_assert_str_eq(client_line(waiting), "(end)");
	close(under_way);
	close(waiting);
}
END_TEST

START_TEST(stop_waits_for_no_change)
{
	int under_way = client_changing(), idle = client_with("status\n");

	ck_assert_str_eq(client_line(idle), STATUS_ANSWER);
	control_socket_stop(fixture.control);
	ck_assert_str_eq(client_line(idle), "(end)");
	ck_assert_int_eq(access(fixture.path, F_OK), -1);
	ck_assert(!control_socket_is_over(fixture.control));
	fixture.hold = false;
	ck_assert_str_eq(client_line(under_way), RESIZE_ANSWER);
	for (int i = 0; i < 5000 && !control_socket_is_over(fixture.control); i++)
		usleep(1000);
	ck_assert(control_socket_is_over(fixture.control));
	close(under_way);
	close(idle);
}
END_TEST

START_TEST(changes_have_a_thread_that_takes_no_signals)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE, SIGALRM, SIGCHLD};
	int fd;

	fixture.hold = false;
	fd = client_with("resize\nstatus\n");
	ck_assert_str_eq(client_line(fd), RESIZE_ANSWER);
	ck_assert_str_eq(client_line(fd), STATUS_ANSWER);
	ck_assert(!pthread_equal(fixture.change_thread, fixture.handler_thread));
	ck_assert(!pthread_equal(fixture.change_thread, pthread_self()));
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		ck_assert_int_eq(sigismember(&fixture.change_mask, signals[i]), 1);
	close(fd);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "changes", .begin = begin, .end = end, .seconds = 30},
		{.test = status_is_answered_during_a_change},
		{.test = changes_are_carried_out_one_after_the_other},
		{.test = changes_are_carried_out_in_the_order_in_which_they_came},
		{.test = changes_that_wait_leave_room_for_the_status},
		{.test = who_waits_for_a_change_has_no_deadline},
		{.test = request_behind_a_change_is_answered_behind_it},
		{.test = client_that_leaves_during_its_change_does_no_harm},
		{.test = free_waits_for_the_change_that_is_under_way_and_begins_no_other},
		{.test = stop_waits_for_no_change},
		{.test = changes_have_a_thread_that_takes_no_signals},
		{0},
	};

	return suite_run("change_queue", cases);
}
