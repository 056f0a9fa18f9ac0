/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event loop, of both kinds: each test runs on io_uring and on epoll.
 */
#include "server/loop/loop.h"
#include "server/loop/loop_backend.h"

#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"

#include "common/clock.h"
#include "engine/backend/choice.h"

#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct loop *loop;
static int ends[2]; /* of a pair of sockets; the loop has the first */

struct noted {
	struct loop_op op;
	unsigned int count;
	int result;
};

static void
note(struct completion *completion, int result)
{
	struct noted *noted = (struct noted *)completion; /* the first member of the first */

	noted->op.active = false;
	noted->count++;
	noted->result = result;
}

#define NOTED                                                                                      \
	{                                                                                          \
		.op.completion.done = note                                                         \
	}

static void
begin(int kind)
{
	ck_assert_int_eq(loop_new(&loop, kind == 0, false), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
}

static void
end(void)
{
	loop_free(loop);
	close(ends[0]);
	if (ends[1] >= 0)
		close(ends[1]);
}

static void
turn_until_done(struct noted *noted)
{
	while (noted->op.active)
		ck_assert_int_eq(loop_turn(loop, 1000), 0);
	ck_assert_uint_eq(noted->count, 1);
}

START_TEST(recv_gets_what_is_there)
{
	struct noted noted = NOTED;
	char bytes[16] = "";

	begin(_i);
	ck_assert_int_eq(write(ends[1], "hello", 5), 5);
	loop_recv(loop, &noted.op, ends[0], bytes, sizeof(bytes), false);
	ck_assert_uint_eq(noted.count, 0); /* never before the turn */
	turn_until_done(&noted);
	ck_assert_int_eq(noted.result, 5);
	ck_assert_str_eq(bytes, "hello");
	end();
}
END_TEST

START_TEST(recv_waits_for_what_comes_later)
{
	struct noted noted = NOTED;
	char bytes[16] = "";

	begin(_i);
	loop_recv(loop, &noted.op, ends[0], bytes, sizeof(bytes), false);
	ck_assert_int_eq(loop_turn(loop, 0), 0);
	ck_assert_int_eq(loop_turn(loop, 1), 0);
	ck_assert_uint_eq(noted.count, 0);
	ck_assert_int_eq(write(ends[1], "x", 1), 1);
	turn_until_done(&noted);
	ck_assert_int_eq(noted.result, 1);
	end();
}
END_TEST

/* A ring receives bytes as soon as the operation is submitted, which may be between two turns: a
 * server that drained refused requests that had arrived before. */
START_TEST(recv_that_has_its_result_does_not_wait)
{
	struct noted noted = NOTED;
	char bytes[16] = "";
	int unread;

	begin(_i);
	loop_recv(loop, &noted.op, ends[0], bytes, sizeof(bytes), false);
	ck_assert_int_eq(write(ends[1], "x", 1), 1);
	loop->backend->submit(loop);
	ck_assert_uint_eq(noted.count, 0);
	ck_assert_int_eq(ioctl(ends[0], FIONREAD, &unread), 0);
	ck_assert(unread > 0 || !loop_waits(loop, &noted.op));
	turn_until_done(&noted);
	ck_assert(!loop_waits(loop, &noted.op));
	end();
}
END_TEST

START_TEST(recv_tells_the_end)
{
	struct noted noted = NOTED;
	char bytes[16];

	begin(_i);
	close(ends[1]);
	ends[1] = -1;
	loop_recv(loop, &noted.op, ends[0], bytes, sizeof(bytes), false);
	turn_until_done(&noted);
	ck_assert_int_eq(noted.result, 0);
	end();
}
END_TEST

START_TEST(send_to_one_who_is_gone_is_an_error_and_no_signal)
{
	struct noted noted = NOTED;
	struct iovec iov = {(char *)"hello", 5};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	begin(_i);
	close(ends[1]);
	ends[1] = -1;
	loop_send(loop, &noted.op, ends[0], &message);
	turn_until_done(&noted);
	ck_assert_int_eq(noted.result, -EPIPE);
	end();
}
END_TEST

START_TEST(send_that_must_wait_goes_on_when_there_is_room)
{
	struct noted noted = NOTED;
	size_t length = 4 << 20, sent = 0, received = 0;
	char *bytes = malloc(length), *seen = malloc(length);
	struct iovec iov = {bytes, length};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	begin(_i);
	for (size_t i = 0; i < length; i++)
		bytes[i] = (char)(i * 7 >> 3);
	loop_send(loop, &noted.op, ends[0], &message);
	while (received < length) {
		ssize_t n;

		ck_assert_int_eq(loop_turn(loop, 0), 0);
		n = recv(ends[1], seen + received, length - received, MSG_DONTWAIT);
		received += n > 0 ? (size_t)n : 0;
		if (noted.op.active)
			continue;
		ck_assert_int_gt(noted.result, 0);
		sent += (size_t)noted.result;
		iov = (struct iovec){bytes + sent, length - sent};
		if (sent < length)
			loop_send(loop, &noted.op, ends[0], &message);
	}
	ck_assert_mem_eq(bytes, seen, length);
	while (noted.op.active)
		loop_turn(loop, 1);
	free(bytes);
	free(seen);
	end();
}
END_TEST

/* A ring does not wake for it; epoll does. */
START_TEST(quiet_send_does_not_end_the_wait)
{
	struct noted in = NOTED, out = NOTED;
	struct iovec iov = {(char *)"hello", 5};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	char byte, bytes[5];
	uint64_t begun;

	begin(_i);
	loop_recv(loop, &in.op, ends[0], &byte, 1, false);
	loop_send_quietly(loop, &out.op, ends[0], &message, 5);
	begun = clock_ns(CLOCK_MONOTONIC);
	ck_assert_int_eq(loop_turn(loop, 30), 0);
	if (loop->is_quiet)
		ck_assert_uint_ge(clock_ns(CLOCK_MONOTONIC) - begun, 29000000);
	turn_until_done(&out);
	ck_assert_int_eq(out.result, 5);
	ck_assert(!loop_sends_quietly(loop));
	ck_assert_uint_eq(in.count, 0);
	ck_assert_int_eq(recv(ends[1], bytes, 5, MSG_DONTWAIT), 5);
	ck_assert_mem_eq(bytes, "hello", 5);
	loop_cancel(loop, &in.op);
	turn_until_done(&in);
	end();
}
END_TEST

START_TEST(quiet_send_completes_before_what_came_meanwhile)
{
	struct noted in = NOTED, out = NOTED;
	struct iovec iov = {(char *)"hello", 5};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	char byte;

	begin(_i);
	loop_send_quietly(loop, &out.op, ends[0], &message, 5);
	ck_assert_int_eq(write(ends[1], "x", 1), 1);
	loop_recv(loop, &in.op, ends[0], &byte, 1, false);
	while (in.op.active)
		ck_assert_int_eq(loop_turn(loop, 1000), 0);
	turn_until_done(&out);
	ck_assert_int_eq(in.result, 1);
	ck_assert_int_eq(out.result, 5);
	end();
}
END_TEST

START_TEST(quiet_send_to_one_who_is_gone_is_an_error)
{
	struct noted noted = NOTED;
	struct iovec iov = {(char *)"hello", 5};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	begin(_i);
	close(ends[1]);
	ends[1] = -1;
	loop_send_quietly(loop, &noted.op, ends[0], &message, 5);
	turn_until_done(&noted);
	ck_assert_int_eq(noted.result, -EPIPE);
	ck_assert(!loop_sends_quietly(loop));
	end();
}
END_TEST

/* The wait ends at once, and the result is what the socket has taken. */
START_TEST(quiet_send_that_does_not_fit_tells_how_much_was_sent)
{
	struct noted noted = NOTED;
	size_t length = 4 << 20, sent, received = 0;
	char *bytes = malloc(length), *seen = malloc(length);
	struct iovec iov[2] = {{bytes, 5}, {bytes + 5, length - 5}};
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t n;

	begin(_i);
	for (size_t i = 0; i < length; i++)
		bytes[i] = (char)(i * 7 >> 3);
	loop_send_quietly(loop, &noted.op, ends[0], &message, length);
	turn_until_done(&noted);
	ck_assert_int_gt(noted.result, 0);
	sent = (size_t)noted.result;
	ck_assert_uint_lt(sent, length);
	/* Now it takes nothing. */
	if (loop->is_quiet) {
		noted.count = 0;
		iov[0] = (struct iovec){bytes + sent, length - sent};
		message.msg_iovlen = 1;
		loop_send_quietly(loop, &noted.op, ends[0], &message, length - sent);
		turn_until_done(&noted);
		ck_assert_int_eq(noted.result, -EAGAIN);
	}
	while ((n = recv(ends[1], seen + received, length - received, MSG_DONTWAIT)) > 0)
		received += (size_t)n;
	ck_assert_uint_eq(received, sent);
	ck_assert_mem_eq(bytes, seen, received);
	ck_assert(!loop_sends_quietly(loop));
	free(bytes);
	free(seen);
	end();
}
END_TEST

START_TEST(both_directions_of_a_socket_wait_at_once)
{
	struct noted in = NOTED, out = NOTED;
	size_t length = 4 << 20;
	char *bytes = calloc(1, length), *seen = malloc(length);
	struct iovec iov = {bytes, length};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	char byte;

	begin(_i);
	loop_recv(loop, &in.op, ends[0], &byte, 1, false);
	loop_send(loop, &out.op, ends[0], &message);
	ck_assert_int_eq(loop_turn(loop, 1), 0);
	ck_assert_int_eq(write(ends[1], "x", 1), 1);
	turn_until_done(&in);
	ck_assert_int_eq(in.result, 1);
	while (out.op.active) {
		recv(ends[1], seen, length, MSG_DONTWAIT);
		ck_assert_int_eq(loop_turn(loop, 1), 0);
	}
	ck_assert_int_gt(out.result, 0);
	free(bytes);
	free(seen);
	end();
}
END_TEST

START_TEST(cancelled_operation_completes)
{
	struct noted noted = NOTED;
	char byte;

	begin(_i);
	loop_recv(loop, &noted.op, ends[0], &byte, 1, false);
	ck_assert_int_eq(loop_turn(loop, 0), 0);
	loop_cancel(loop, &noted.op);
	turn_until_done(&noted);
	ck_assert_int_eq(noted.result, -ECANCELED);
	/* A completed operation is not cancelled, and its socket can be used again. */
	loop_cancel(loop, &noted.op);
	noted.count = 0;
	loop_recv(loop, &noted.op, ends[0], &byte, 1, false);
	ck_assert_int_eq(write(ends[1], "x", 1), 1);
	turn_until_done(&noted);
	ck_assert_int_eq(noted.result, 1);
	end();
}
END_TEST

START_TEST(poll_completes_when_there_is_something_to_read)
{
	struct noted noted = NOTED;
	int event = eventfd(0, EFD_CLOEXEC);

	begin(_i);
	loop_poll(loop, &noted.op, event);
	ck_assert_int_eq(loop_turn(loop, 0), 0);
	ck_assert_uint_eq(noted.count, 0);
	eventfd_write(event, 1);
	turn_until_done(&noted);
	ck_assert_int_ge(noted.result, 0);
	close(event);
	end();
}
END_TEST

START_TEST(descriptor_that_was_closed_and_given_out_again_is_another_one)
{
	struct noted noted = NOTED;
	char byte;
	int fd;

	begin(_i);
	for (int i = 0; i < 3; i++) {
		fd = ends[0];
		noted.count = 0;
		loop_recv(loop, &noted.op, ends[0], &byte, 1, false);
		ck_assert_int_eq(loop_turn(loop, 0), 0);
		ck_assert_int_eq(write(ends[1], "x", 1), 1);
		turn_until_done(&noted);
		ck_assert_int_eq(noted.result, 1);
		close(ends[0]);
		close(ends[1]);
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
		ck_assert(ends[0] == fd || ends[1] == fd);
		if (ends[1] == fd) {
			ends[1] = ends[0];
			ends[0] = fd;
		}
	}
	end();
}
END_TEST

START_TEST(turn_ends_when_its_time_is_over)
{
	struct noted noted = NOTED;
	char byte;

	begin(_i);
	loop_recv(loop, &noted.op, ends[0], &byte, 1, false);
	ck_assert_int_eq(loop_turn(loop, 20), 0);
	ck_assert_uint_eq(noted.count, 0);
	loop_cancel(loop, &noted.op);
	turn_until_done(&noted);
	end();
}
END_TEST

static int epoll_failures; /* so many calls fail */

/* Replaces the C library's. */
int
epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	if (epoll_failures == 0)
		return (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);
	epoll_failures--;
	errno = ENOSPC;
	return -1;
}

static void
turn_a_few_times(struct noted *noted)
{
	for (int i = 0; noted->op.active && i < 20; i++)
		ck_assert_int_eq(loop_turn(loop, 1000), 0);
	ck_assert_uint_eq(noted->count, 1);
	ck_assert_int_eq(noted->result, 1);
}

START_TEST(epoll_that_fails_silences_no_descriptor)
{
	static const int failures[] = {1, 2, 3, INT_MAX};
	struct noted noted = NOTED, event = NOTED;
	uint64_t one = 1;
	char byte;
	int fd = eventfd(0, EFD_CLOEXEC);

	log_capture_begin();
	begin(1);
	epoll_failures = failures[_i];
	loop_poll(loop, &event.op, fd);
	loop_recv(loop, &noted.op, ends[0], &byte, 1, false);
	ck_assert_int_eq(loop_turn(loop, 0), 0);
	ck_assert_uint_eq(noted.count + event.count, 0);
	ck_assert_int_eq(write(ends[1], "x", 1), 1);
	turn_a_few_times(&noted);
	/* The same descriptor again: the event that was armed in vain does no harm. */
	noted.count = 0;
	loop_recv(loop, &noted.op, ends[0], &byte, 1, false);
	ck_assert_int_eq(loop_turn(loop, 0), 0);
	ck_assert_int_eq(write(ends[1], "x", 1), 1);
	turn_a_few_times(&noted);
	ck_assert_uint_eq(event.count, 0);
	ck_assert_int_eq(write(fd, &one, sizeof(one)), sizeof(one));
	event.result = 1;
	for (int i = 0; event.op.active && i < 20; i++)
		ck_assert_int_eq(loop_turn(loop, 1000), 0);
	ck_assert_uint_eq(event.count, 1);
	ck_assert_int_eq(event.result, 0);
	epoll_failures = 0;
	end();
	close(fd);
	/* Logged once in a minute: not each time if all tests share one process. */
	ck_assert_uint_le(log_capture_count(LOG_LEVEL_ERROR), 1);
	ck_assert(_i > 0 ||
		  log_capture_has(LOG_LEVEL_ERROR,
				  "event loop: epoll_ctl: No space left on device; trying again"));
	log_capture_end();
}
END_TEST

START_TEST(cancelled_operation_completes_when_epoll_fails)
{
	struct noted noted = NOTED;
	char byte;

	log_capture_begin();
	begin(1);
	epoll_failures = INT_MAX;
	loop_recv(loop, &noted.op, ends[0], &byte, 1, false);
	ck_assert_int_eq(loop_turn(loop, 0), 0);
	loop_cancel(loop, &noted.op);
	turn_until_done(&noted);
	ck_assert_int_eq(noted.result, -ECANCELED);
	epoll_failures = 0;
	end();
	log_capture_end();
}
END_TEST

/* 0 is io_uring, 1 is epoll. */
#define ON_BOTH(test_)                                                                             \
	{.test = (test_), .reason = no_uring},                                                     \
	{                                                                                          \
		.test = (test_), .first = 1, .last = 2                                             \
	}

int
main(void)
{
	char reason[REASON_MAX];
	const char *no_uring =
		backend_works(ENGINE_IO_URING, reason) == 0 ? NULL : "no io_uring here";
	const struct suite_row cases[] = {
		{.name = "loop"},
		ON_BOTH(recv_gets_what_is_there),
		ON_BOTH(recv_waits_for_what_comes_later),
		ON_BOTH(recv_that_has_its_result_does_not_wait),
		ON_BOTH(recv_tells_the_end),
		ON_BOTH(send_to_one_who_is_gone_is_an_error_and_no_signal),
		ON_BOTH(send_that_must_wait_goes_on_when_there_is_room),
		ON_BOTH(quiet_send_does_not_end_the_wait),
		ON_BOTH(quiet_send_completes_before_what_came_meanwhile),
		ON_BOTH(quiet_send_to_one_who_is_gone_is_an_error),
		ON_BOTH(quiet_send_that_does_not_fit_tells_how_much_was_sent),
		ON_BOTH(both_directions_of_a_socket_wait_at_once),
		ON_BOTH(cancelled_operation_completes),
		ON_BOTH(poll_completes_when_there_is_something_to_read),
		ON_BOTH(descriptor_that_was_closed_and_given_out_again_is_another_one),
		ON_BOTH(turn_ends_when_its_time_is_over),
		{.test = epoll_that_fails_silences_no_descriptor, .last = 4},
		{.test = cancelled_operation_completes_when_epoll_fails},
		{0},
	};

	return suite_run("loop", cases);
}
