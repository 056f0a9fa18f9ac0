/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One client's connection to the control socket: requests, lines, time limit and end.
 * check_control_socket.c tests the socket itself.
 */
#include "tests/lib/suite.h"
#include "tests/unit/control_fixture.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* The server closes the connection now, and not after the client's time limit. */
static void
assert_prompt_end(int fd)
{
	struct pollfd end = {.fd = fd, .events = POLLIN};

	ck_assert_int_eq(poll(&end, 1, 2000), 1);
	ck_assert_str_eq(client_line(fd), "(end)");
}

static void
assert_error_line(int fd, const char *hint)
{
	const char *line = client_line(fd);

	ck_assert_msg(!strncmp(line, "{\"error\":\"", 10), "%s", line);
	ck_assert_msg(strstr(line, hint), "'%s' doesn't tell '%s'", line, hint);
}

START_TEST(request_is_answered_on_one_line)
{
	int fd = client_new();

	client_send(fd, "status\n");
	ck_assert_str_eq(client_line(fd), STATUS_ANSWER);
	close(fd);
}
END_TEST

START_TEST(requests_of_one_connection_are_answered_in_order)
{
	int fd = client_new();

	client_send(fd, "status\n");
	ck_assert_str_eq(client_line(fd), STATUS_ANSWER);
	/* Several requests in one write, and one more before the answers to those. */
	client_send(fd, "set direct-io=on export=a b\nset direct-io=off\nresize\nresize export=c");
	client_send(fd, "\n");
	ck_assert_str_eq(client_line(fd), "{\"set\":\"a b\",\"on\":1,\"data\":\"d\"}");
	ck_assert_str_eq(client_line(fd), "{\"set\":\"-\",\"on\":0,\"data\":\"d\"}");
	ck_assert_str_eq(client_line(fd), "{\"resize\":\"-\",\"on\":0,\"data\":\"d\"}");
	ck_assert_str_eq(client_line(fd), "{\"resize\":\"c\",\"on\":0,\"data\":\"d\"}");
	close(fd);
}
END_TEST

START_TEST(thousand_requests_at_once_are_all_answered)
{
	static char requests[7 * 1000 + 1];
	int fd = client_new();

	for (int i = 0; i < 1000; i++)
		strcpy(requests + 7 * i, "status\n");
	client_send(fd, requests);
	for (int i = 0; i < 1000; i++)
		ck_assert_str_eq(client_line(fd), STATUS_ANSWER);
	ck_assert_int_eq(fixture.handled, 1000);
	close(fd);
}
END_TEST

START_TEST(request_in_single_bytes_is_answered)
{
	int fd = client_new();

	for (const char *at = "status\n"; *at; at++) {
		client_send_bytes(fd, at, 1);
		usleep(1000);
	}
	ck_assert_str_eq(client_line(fd), STATUS_ANSWER);
	close(fd);
}
END_TEST

START_TEST(huge_answer_arrives_whole)
{
	static char buffer[65536];
	size_t total = 0;
	int fd = client_new();

	client_send(fd, "resize export=huge\nstatus\n");
	shutdown(fd, SHUT_WR);
	for (;;) {
		ssize_t got = recv(fd, buffer, sizeof(buffer), 0);

		ck_assert_int_ge(got, 0);
		if (got == 0)
			break;
		total += (size_t)got;
	}
	ck_assert_uint_eq(total,
			  strlen("{\"resize\":\"huge\",\"on\":0,\"data\":\"d\",\"x\":\"\"}\n") +
				  HUGE_ANSWER + strlen(STATUS_ANSWER "\n"));
	close(fd);
}
END_TEST

START_TEST(bad_request_is_answered_with_an_error_and_the_next_one_served)
{
	int fd = client_new();

	client_send(fd, "reboot\n\nset direct-io=maybe\nstatus\n");
	assert_error_line(fd, "unknown request");
	assert_error_line(fd, "unknown request");
	assert_error_line(fd, "direct-io=on");
	ck_assert_str_eq(client_line(fd), STATUS_ANSWER);
	ck_assert_int_eq(fixture.handled, 1);
	close(fd);
}
END_TEST

START_TEST(nul_byte_in_a_request_is_refused)
{
	int fd = client_new();

	client_send_bytes(fd, "status\0x\nresize export=a\0b\n", 27);
	assert_error_line(fd, "NUL");
	assert_error_line(fd, "NUL");
	ck_assert_int_eq(fixture.handled, 0);
	close(fd);
}
END_TEST

START_TEST(longest_line_is_served)
{
	static char line[CONTROL_REQUEST_MAX + 1] = "resize export=";
	const char *answer;
	int fd = client_new();

	memset(line + strlen(line), 'n', CONTROL_REQUEST_MAX - 1 - strlen(line));
	line[CONTROL_REQUEST_MAX - 1] = '\n';
	client_send(fd, line);
	answer = client_line(fd);
	ck_assert_msg(!strncmp(answer, "{\"resize\":\"nnnn", 15), "%s", answer);
	close(fd);
}
END_TEST

START_TEST(line_one_byte_too_long_is_refused_and_closed)
{
	static char line[CONTROL_REQUEST_MAX + 2] = "resize export=";
	int fd = client_new();

	memset(line + strlen(line), 'n', CONTROL_REQUEST_MAX - strlen(line));
	line[CONTROL_REQUEST_MAX] = '\n';
	client_send(fd, line);
	assert_error_line(fd, "too long");
	assert_prompt_end(fd);
	ck_assert_int_eq(fixture.handled, 0);
	close(fd);
	assert_still_serves();
}
END_TEST

START_TEST(client_that_sends_a_megabyte_without_newline_can_read_why)
{
	static char bytes[1 << 20];
	int fd = client_new();

	memset(bytes, 'x', sizeof(bytes));
	client_send_bytes(fd, bytes, sizeof(bytes));
	client_send(fd, "\nstatus\n");
	assert_error_line(fd, "too long");
	assert_prompt_end(fd);
	ck_assert_int_eq(fixture.handled, 0);
	close(fd);
	assert_still_serves();
}
END_TEST

START_TEST(half_closed_client_gets_its_answer_and_the_end)
{
	int fd = client_new();

	client_send(fd, "status\nresize\n");
	shutdown(fd, SHUT_WR);
	ck_assert_str_eq(client_line(fd), STATUS_ANSWER);
	ck_assert_str_eq(client_line(fd), "{\"resize\":\"-\",\"on\":0,\"data\":\"d\"}");
	assert_prompt_end(fd);
	close(fd);
}
END_TEST

START_TEST(cut_off_request_is_not_carried_out)
{
	int fd = client_new();

	client_send(fd, "resize export=disk");
	shutdown(fd, SHUT_WR);
	assert_error_line(fd, "newline");
	assert_prompt_end(fd);
	ck_assert_int_eq(fixture.handled, 0);
	close(fd);
}
END_TEST

START_TEST(client_that_leaves_before_its_answer_does_no_harm)
{
	for (int i = 0; i < 20; i++) {
		int fd = client_new();

		client_send(fd, "resize export=huge\nstatus\n");
		close(fd);
	}
	assert_still_serves();
}
END_TEST

/* Waits for the end of a connection, reading nothing else; returns the seconds it took. */
static double
seconds_to_hangup(int fd, const struct timespec *start)
{
	struct pollfd hangup = {.fd = fd};
	struct timespec now;

	ck_assert_int_eq(poll(&hangup, 1, 15000), 1);
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static atomic_bool trickling;

/* A byte every 50 ms, and never a newline. */
static void *
trickle(void *data)
{
	int fd = *(int *)data;

	while (trickling) {
		send(fd, "s", 1, MSG_NOSIGNAL);
		usleep(50000);
	}
	return NULL;
}

START_TEST(silent_halfway_trickling_and_unreading_clients_are_dropped_after_5_seconds)
{
	int fds[4];
	struct timespec start;
	pthread_t trickler;

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int i = 0; i < 4; i++)
		fds[i] = client_new();
	client_send(fds[1], "stat");
	client_send(fds[2], "resize export=huge\n");
	trickling = true;
	ck_assert_int_eq(pthread_create(&trickler, NULL, trickle, &fds[3]), 0);

	/* None of them delays another client. */
	assert_still_serves();
	for (int i = 0; i < 4; i++) {
		double seconds = seconds_to_hangup(fds[i], &start);

		ck_assert_msg(seconds > 4.9 && seconds < 9, "client %d: %.1f s", i, seconds);
	}
	trickling = false;
	pthread_join(trickler, NULL);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	assert_still_serves();
}
END_TEST

START_TEST(patience_starts_anew_with_each_answer)
{
	int fd = client_new();

	for (int i = 0; i < 3; i++) {
		sleep(2);
		client_send(fd, "status\n");
		ck_assert_str_eq(client_line(fd), STATUS_ANSWER);
	}
	close(fd);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "requests",
		 .begin = fixture_begin_serving,
		 .end = fixture_end,
		 .seconds = 30},
		{.test = request_is_answered_on_one_line},
		{.test = requests_of_one_connection_are_answered_in_order},
		{.test = thousand_requests_at_once_are_all_answered},
		{.test = request_in_single_bytes_is_answered},
		{.test = huge_answer_arrives_whole},
		{.test = bad_request_is_answered_with_an_error_and_the_next_one_served},
		{.test = nul_byte_in_a_request_is_refused},
		{.test = longest_line_is_served},
		{.test = line_one_byte_too_long_is_refused_and_closed},
		{.test = client_that_sends_a_megabyte_without_newline_can_read_why},
		{.test = half_closed_client_gets_its_answer_and_the_end},
		{.test = cut_off_request_is_not_carried_out},
		{.test = client_that_leaves_before_its_answer_does_no_harm},
		{.test = silent_halfway_trickling_and_unreading_clients_are_dropped_after_5_seconds},
		{.test = patience_starts_anew_with_each_answer},
		{0},
	};

	return suite_run("control_client", cases);
}
