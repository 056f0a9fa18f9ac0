/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket: path and file, start and end, thread, and number of clients.
 * check_control_client.c tests one client's requests and answers.
 */
#include "tests/lib/suite.h"
#include "tests/unit/control_fixture.h"

#include "common/log.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

START_TEST(silent_clients_do_not_keep_others_from_their_answer)
{
	int silent[300];

	for (int i = 0; i < 300; i++) {
		silent[i] = client_new();
		/* A request that never ends is none. */
		if (i % 2)
			client_send(silent[i], "stat");
	}
	/* The time limit of each would let the last wait for longer than client_line() does. */
	assert_still_serves();
	ck_assert_str_eq(client_line(silent[0]), "(end)");
	for (int i = 0; i < 300; i++)
		close(silent[i]);
}
END_TEST

static atomic_bool starved;
static atomic_int starved_accepts, complaints;

/* Replaces the C library's accept4(): a real lack of descriptors would stop the test, too. */
int
accept4(int listener, __SOCKADDR_ARG address, socklen_t *length, int flags)
{
	int fd;

	if (starved) {
		starved_accepts++;
		errno = EMFILE;
		return -1;
	}
	fd = accept(listener, address, length);
	if (fd >= 0 && flags & SOCK_NONBLOCK)
		fcntl(fd, F_SETFL, O_NONBLOCK);
	if (fd >= 0 && flags & SOCK_CLOEXEC)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	return fd;
}

static void
sink_count(enum log_level level, const char *text)
{
	ck_assert_int_eq(level, LOG_LEVEL_ERROR);
	ck_assert_msg(strstr(text, fixture.path) && strstr(text, "Too many open files"), "%s",
		      text);
	complaints++;
}

static int64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

START_TEST(without_descriptors_clients_wait_and_accept_is_tried_a_few_times_a_second)
{
	struct pollfd answer = {.events = POLLIN};
	int64_t begun;
	int fd;

	log_set_sink(sink_count);
	begun = now_ms();
	starved = true;
	answer.fd = fd = client_new();
	client_send(fd, "status\n");
	while (starved_accepts < 5)
		ck_assert_int_eq(poll(&answer, 1, 10), 0);
	/* On a busy machine accept4() may be tried late, but never again at once. */
	ck_assert_int_ge(now_ms() - begun, 300);
	ck_assert_int_eq(complaints, 1);

	starved = false;
	ck_assert_str_eq(client_line(fd), STATUS_ANSWER);
	close(fd);
	log_set_sink(NULL);
}
END_TEST

START_TEST(handler_runs_on_one_thread_that_takes_no_signals)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE, SIGALRM, SIGCHLD};
	pthread_t first;

	assert_still_serves();
	first = fixture.handler_thread;
	ck_assert(!pthread_equal(first, pthread_self()));
	assert_still_serves();
	ck_assert(pthread_equal(first, fixture.handler_thread));
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		ck_assert_int_eq(sigismember(&fixture.handler_mask, signals[i]), 1);
}
END_TEST

START_TEST(start_leaves_the_callers_signals_alone)
{
	sigset_t mine, before, now;

	sigemptyset(&mine);
	sigaddset(&mine, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &mine, &before);
	socket_start();
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	ck_assert_int_eq(sigismember(&now, SIGUSR2), 1);
	ck_assert_int_eq(sigismember(&now, SIGTERM), 0);
	ck_assert_int_eq(sigismember(&now, SIGPIPE), 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}
END_TEST

START_TEST(free_ends_connections_and_removes_the_file)
{
	int fd;

	socket_start();
	fd = client_new();
	client_send(fd, "status\n");
	ck_assert_str_eq(client_line(fd), STATUS_ANSWER);
	control_socket_free(fixture.control);
	fixture.control = NULL;
	ck_assert_str_eq(client_line(fd), "(end)");
	ck_assert_int_eq(access(fixture.path, F_OK), -1);
	close(fd);
}
END_TEST

START_TEST(free_works_without_start_and_with_null)
{
	char *error = NULL;

	ck_assert_int_eq(socket_new(fixture.path, &error), 0);
	control_socket_free(fixture.control);
	fixture.control = NULL;
	ck_assert_int_eq(access(fixture.path, F_OK), -1);
	control_socket_free(NULL);
}
END_TEST

START_TEST(client_may_connect_before_start)
{
	char *error = NULL;
	int fd;

	ck_assert_int_eq(socket_new(fixture.path, &error), 0);
	fd = client_new();
	client_send(fd, "status\n");
	ck_assert_int_eq(control_socket_start(fixture.control), 0);
	ck_assert_str_eq(client_line(fd), STATUS_ANSWER);
	close(fd);
}
END_TEST

static ino_t
inode_of(const char *name)
{
	struct stat file;

	ck_assert_msg(lstat(name, &file) == 0, "%s: %s", name, strerror(errno));
	return file.st_ino;
}

START_TEST(free_leaves_a_file_alone_that_took_the_place)
{
	struct control_socket *old;
	char *error = NULL;

	ck_assert_int_eq(socket_new(fixture.path, &error), 0);
	old = fixture.control;
	ck_assert_int_eq(unlink(fixture.path), 0);
	ck_assert_int_eq(socket_new(fixture.path, &error), 0);
	control_socket_free(old);
	ck_assert_int_eq(control_socket_start(fixture.control), 0);
	assert_still_serves();
}
END_TEST

START_TEST(relative_path_is_removed_after_a_change_of_directory)
{
	char *error = NULL;

	ck_assert_int_eq(chdir(fixture.directory), 0);
	ck_assert_int_eq(socket_new("control", &error), 0);
	ck_assert_int_eq(access(fixture.path, F_OK), 0);
	ck_assert_int_eq(chdir("/"), 0);
	control_socket_free(fixture.control);
	fixture.control = NULL;
	ck_assert_int_eq(access(fixture.path, F_OK), -1);
}
END_TEST

/* A bound socket; it listens when `backlog` >= 0. */
static int
foreign_socket(int type, int backlog)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type, 0);

	ck_assert_int_ge(fd, 0);
	strcpy(address.sun_path, fixture.path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	if (backlog >= 0)
		ck_assert_int_eq(listen(fd, backlog), 0);
	return fd;
}

/* The path is refused with a sentence that names it and contains `hint`; its file stays. */
static void
assert_left_alone(int expected, const char *hint)
{
	ino_t before = inode_of(fixture.path);
	char *error = NULL;
	int result = socket_new(fixture.path, &error);

	ck_assert_int_eq(result, expected);
	ck_assert_ptr_null(fixture.control);
	ck_assert_ptr_nonnull(error);
	ck_assert_msg(strstr(error, fixture.path) && strstr(error, hint), "%s", error);
	ck_assert_uint_eq(inode_of(fixture.path), before);
	free(error);
}

START_TEST(stale_socket_file_is_replaced)
{
	close(foreign_socket(SOCK_STREAM, 1));
	ck_assert_int_eq(access(fixture.path, F_OK), 0);
	socket_start();
	assert_still_serves();
}
END_TEST

START_TEST(socket_that_somebody_listens_on_is_left_alone)
{
	int fd = foreign_socket(SOCK_STREAM, 5);

	assert_left_alone(-EADDRINUSE, "another server listens there");
	close(fd);
}
END_TEST

START_TEST(socket_with_a_full_backlog_is_left_alone)
{
	int fd = foreign_socket(SOCK_STREAM, 0), waiting = client_new();

	assert_left_alone(-EADDRINUSE, "another server listens there");
	close(waiting);
	close(fd);
}
END_TEST

START_TEST(socket_of_another_type_is_left_alone)
{
	int fd = foreign_socket(SOCK_DGRAM, -1);

	assert_left_alone(-EADDRINUSE, "may be in use");
	close(fd);
}
END_TEST

START_TEST(second_control_socket_at_one_path_is_refused)
{
	struct control_socket *first;

	socket_start();
	first = fixture.control;
	fixture.control = NULL;
	assert_left_alone(-EADDRINUSE, "another server listens there");
	fixture.control = first;
	assert_still_serves();
}
END_TEST

START_TEST(regular_file_is_left_alone)
{
	int fd = open(fixture.path, O_CREAT | O_WRONLY, 0600);

	ck_assert_int_ge(fd, 0);
	close(fd);
	assert_left_alone(-EEXIST, "not a socket");
}
END_TEST

START_TEST(symbolic_link_is_left_alone)
{
	ck_assert_int_eq(symlink("nowhere", fixture.path), 0);
	assert_left_alone(-EEXIST, "not a socket");
}
END_TEST

START_TEST(path_too_long_for_a_socket_is_refused_with_the_limit)
{
	char long_path[200], hint[80], *error = NULL;
	size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;

	snprintf(long_path, sizeof(long_path), "%s/%0*d", fixture.directory,
		 (int)(most + 1 - strlen(fixture.directory) - 1), 0);
	ck_assert_uint_eq(strlen(long_path), most + 1);
	ck_assert_int_eq(socket_new(long_path, &error), -ENAMETOOLONG);
	snprintf(hint, sizeof(hint), "has %zu bytes, but the path of a socket can have only %zu",
		 most + 1, most);
	ck_assert_msg(strstr(error, long_path) && strstr(error, hint), "%s", error);
	free(error);

	error = NULL;
	long_path[most] = '\0';
	ck_assert_msg(socket_new(long_path, &error) == 0, "%s", error);
}
END_TEST

START_TEST(empty_path_is_refused)
{
	char *error = NULL;

	ck_assert_int_eq(socket_new("", &error), -EINVAL);
	ck_assert_msg(strstr(error, "path is empty"), "%s", error);
	free(error);
}
END_TEST

START_TEST(missing_directory_is_refused)
{
	char missing[128], *error = NULL;

	snprintf(missing, sizeof(missing), "%s/no/control", fixture.directory);
	ck_assert_int_eq(socket_new(missing, &error), -ENOENT);
	ck_assert_msg(strstr(error, missing) && strstr(error, "No such file"), "%s", error);
	free(error);
}
END_TEST

static mode_t
mode_under_umask(mode_t mask)
{
	char *error = NULL;
	struct stat file;
	mode_t before = umask(mask), after;
	int result = socket_new(fixture.path, &error);

	after = umask(before);
	ck_assert_msg(result == 0, "%s", error);
	ck_assert_msg(after == mask, "the process's umask was changed to %o", after);
	ck_assert_int_eq(lstat(fixture.path, &file), 0);
	control_socket_free(fixture.control);
	fixture.control = NULL;
	return file.st_mode & 07777;
}

START_TEST(socket_is_private_under_any_umask)
{
	ck_assert_uint_eq(mode_under_umask(0), 0600);
	ck_assert_uint_eq(mode_under_umask(022), 0600);
	ck_assert_uint_eq(mode_under_umask(0777), 0600);
}
END_TEST

START_TEST(socket_is_private_from_its_first_moment)
{
	static const mode_t masks[] = {0, 022, 0777};
	/* The file is created with its mode, which is not changed afterwards. */
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	int fd = inotify_init1(IN_NONBLOCK);
	bool created = false;
	ssize_t size;

	ck_assert_int_ge(inotify_add_watch(fd, fixture.directory, IN_CREATE | IN_ATTRIB), 0);
	ck_assert_uint_eq(mode_under_umask(masks[_i]), 0600);
	size = read(fd, events, sizeof(events));
	ck_assert_int_gt(size, 0);
	for (char *at = events; at < events + size;) {
		struct inotify_event *event = (struct inotify_event *)at;

		created = created || event->mask & IN_CREATE;
		ck_assert_msg(!(event->mask & IN_ATTRIB), "its mode was changed after it was made");
		at += sizeof(*event) + event->len;
	}
	ck_assert(created);
	close(fd);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "clients",
		 .begin = fixture_begin_serving,
		 .end = fixture_end,
		 .seconds = 30},
		{.test = silent_clients_do_not_keep_others_from_their_answer},
		{.test = without_descriptors_clients_wait_and_accept_is_tried_a_few_times_a_second},
		{.test = handler_runs_on_one_thread_that_takes_no_signals},
		{.name = "file", .begin = fixture_begin, .end = fixture_end, .seconds = 30},
		{.test = start_leaves_the_callers_signals_alone},
		{.test = free_ends_connections_and_removes_the_file},
		{.test = free_works_without_start_and_with_null},
		{.test = client_may_connect_before_start},
		{.test = free_leaves_a_file_alone_that_took_the_place},
		{.test = relative_path_is_removed_after_a_change_of_directory},
		{.test = stale_socket_file_is_replaced},
		{.test = socket_that_somebody_listens_on_is_left_alone},
		{.test = socket_with_a_full_backlog_is_left_alone},
		{.test = socket_of_another_type_is_left_alone},
		{.test = second_control_socket_at_one_path_is_refused},
		{.test = regular_file_is_left_alone},
		{.test = symbolic_link_is_left_alone},
		{.test = path_too_long_for_a_socket_is_refused_with_the_limit},
		{.test = empty_path_is_refused},
		{.test = missing_directory_is_refused},
		{.test = socket_is_private_under_any_umask},
		{.test = socket_is_private_from_its_first_moment, .last = 3},
		{0},
	};

	return suite_run("control_socket", cases);
}
