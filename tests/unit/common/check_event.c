/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events: the lines that a reader gets, and what happens if it does not read.
 */
#include "common/event.h"

#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"

#include "common/cleanup.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int reader;

static void
begin(void)
{
	char *error;
	int ends[2];

	log_capture_begin();
	signal(SIGPIPE, SIG_IGN);
	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(event_open((unsigned int)ends[1], &error), 0);
	ck_assert(fcntl(ends[1], F_GETFD) & FD_CLOEXEC);
	reader = ends[0];
}

static void
end(void)
{
	event_close();
	if (reader >= 0)
		close(reader);
	log_capture_end();
}

static void
assert_read(const char *expected)
{
	char text[4096];
	ssize_t n = read(reader, text, sizeof(text) - 1);

	ck_assert_int_ge(n, 0);
	text[n] = '\0';
	ck_assert_str_eq(text, expected);
}

static const struct {
	struct event event;
	const char *line;
} lines[] = {
	{{.kind = EVENT_READY, .addresses = (const char *const[]){"[::]:10809", "unix:/s", NULL}},
	 "{\"event\":\"ready\",\"addresses\":[\"[::]:10809\",\"unix:/s\"]}\n"},
	{{.kind = EVENT_READY, .addresses = (const char *const[]){NULL}},
	 "{\"event\":\"ready\",\"addresses\":[]}\n"},
	{{.kind = EVENT_LOCK_TAKEN, .subject = "rbd:p/i", .client = "1.2.3.4:0/5"},
	 "{\"event\":\"lock-taken\",\"subject\":\"rbd:p/i\",\"client\":\"1.2.3.4:0/5\"}\n"},
	{{.kind = EVENT_LOCK_RELEASED, .subject = "rbd:p/i"},
	 "{\"event\":\"lock-released\",\"subject\":\"rbd:p/i\"}\n"},
	{{.kind = EVENT_FENCED, .subject = "rbd:p/i", .text = "why"},
	 "{\"event\":\"fenced\",\"subject\":\"rbd:p/i\",\"text\":\"why\"}\n"},
	{{.kind = EVENT_REFUSED, .subject = "a\nb", .error = 11, .text = "\"in use\""},
	 "{\"event\":\"refused\",\"subject\":\"a\\nb\",\"errno\":11,\"text\":\"\\\"in use\\\"\"}\n"},
	{{.kind = EVENT_ENDING}, "{\"event\":\"ending\"}\n"},
};

START_TEST(event_is_a_line)
{
	event_raise(&lines[_i].event);
	assert_read(lines[_i].line);
}
END_TEST

/* No words of the log, but this table, are what other programs may rely on. */
START_TEST(manual_explains_each_event)
{
	char path[PATH_MAX], item[64];
	char *CLEANUP_FREE text = calloc(1, 1 << 20);
	FILE *manual;

	ck_assert_ptr_nonnull(text);
	snprintf(path, sizeof(path), "%s/man/nbdloopd-control.pod", getenv("top_srcdir"));
	manual = fopen(path, "re");
	ck_assert_ptr_nonnull(manual);
	ck_assert_uint_gt(fread(text, 1, (1 << 20) - 1, manual), 0);
	fclose(manual);
	for (unsigned int i = 0; i < EVENT_KINDS; i++) {
		snprintf(item, sizeof(item), "=item C<%s>", event_names[i]);
		ck_assert_msg(strstr(text, item) != NULL, "%s", item);
	}
}
END_TEST

/* What it does not read, it does not miss unknowingly. */
START_TEST(slow_reader_sees_the_end)
{
	static char subject[3000];
	struct event event = {.kind = EVENT_REFUSED, .subject = subject};
	char bytes[8192];
	size_t size = 0, line_size;
	char *CLEANUP_FREE line = NULL;
	ssize_t n;

	memset(subject, 's', sizeof(subject) - 1);
	line = event_line(&event, &line_size);
	for (unsigned int i = 0; i < 100; i++)
		event_raise(&event);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 1);
	while ((n = read(reader, bytes, sizeof(bytes))) > 0)
		size += (size_t)n;
	ck_assert_int_eq(n, 0);
	ck_assert_uint_gt(size, 10 * line_size);
	ck_assert_uint_lt(size, 100 * line_size);
}
END_TEST

/* The next line would begin in its middle. */
START_TEST(line_that_is_cut_is_the_last)
{
	/* Longer than what a pipe takes as a whole or not at all. */
	static char subject[PIPE_BUF + 2000];
	struct event event = {.kind = EVENT_REFUSED, .subject = subject};
	char bytes[8192];
	size_t line_size;
	int left = 0;
	char *CLEANUP_FREE line = NULL;

	memset(subject, 's', sizeof(subject) - 1);
	line = event_line(&event, &line_size);
	while ((size_t)left % line_size == 0) {
		event_raise(&event);
		ck_assert_int_eq(ioctl(reader, FIONREAD, &left), 0);
	}
	while (left > 0)
		left -= (int)read(reader, bytes, sizeof(bytes));
	event_raise(&(struct event){.kind = EVENT_ENDING});
	assert_read("");
}
END_TEST

/* Such as one that wants only the first line. */
START_TEST(reader_may_go)
{
	close(reader);
	reader = -1;
	event_raise(&(struct event){.kind = EVENT_READY});
	event_raise(&(struct event){.kind = EVENT_ENDING});
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 0);
}
END_TEST

START_TEST(socket_takes_events)
{
	int pair[2];
	char *error;

	event_close();
	close(reader);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	ck_assert_int_eq(event_open((unsigned int)pair[1], &error), 0);
	reader = pair[0];
	event_raise(&(struct event){.kind = EVENT_ENDING});
	assert_read("{\"event\":\"ending\"}\n");
}
END_TEST

/* A write to a file waits for a disk. */
START_TEST(file_takes_no_events)
{
	char *CLEANUP_FREE error = NULL;
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(event_open((unsigned int)fd, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "must be a pipe or a socket"));
	close(fd);
}
END_TEST

START_TEST(descriptor_must_be_open)
{
	char *CLEANUP_FREE error = NULL;

	ck_assert_int_eq(event_open(1000, &error), -EBADF);
	ck_assert_ptr_nonnull(strstr(error, "not open"));
}
END_TEST

/* A connection, say, which is closed when its client goes: then its number is opened again. */
START_TEST(descriptor_has_no_other_use)
{
	char *CLEANUP_FREE error = NULL;
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(event_open((unsigned int)pair[0], &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "another use"));
	event_raise(&(struct event){.kind = EVENT_ENDING});
	assert_read("{\"event\":\"ending\"}\n");
	close(pair[0]);
	close(pair[1]);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "event", .begin = begin, .end = end},
		{.test = event_is_a_line, .last = sizeof(lines) / sizeof(lines[0])},
		{.test = manual_explains_each_event},
		{.test = slow_reader_sees_the_end},
		{.test = line_that_is_cut_is_the_last},
		{.test = reader_may_go},
		{.test = socket_takes_events},
		{.test = file_takes_no_events},
		{.test = descriptor_must_be_open},
		{.test = descriptor_has_no_other_use},
		{0},
	};

	return suite_run("event", cases);
}
