/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket: its file, its thread and its clients.
 */
#include "control/control_socket.h"

#include "common/log.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* More than a socket buffer holds. */
#define HUGE_ANSWER (2 << 20)

static char directory[64];
static char path[108];
static struct control_socket *control;

static atomic_int handled;
static sigset_t handler_mask;
static pthread_t handler_thread;

/* Answers with the request it got; the export "huge" makes the answer large. */
static void
handle(const struct control_request *request, FILE *out, void *data)
{
	static const char *const verbs[] = {
		[CONTROL_STATUS] = "status",
		[CONTROL_SET] = "set",
		[CONTROL_RESIZE] = "resize",
	};

	handled++;
	handler_thread = pthread_self();
	pthread_sigmask(SIG_SETMASK, NULL, &handler_mask);
	fprintf(out, "{\"%s\":\"%s\",\"on\":%d,\"data\":\"%s\"", verbs[request->verb],
		request->export_name ? request->export_name : "-", request->direct_io,
		(const char *)data);
	if (request->export_name && !strcmp(request->export_name, "huge"))
		fprintf(out, ",\"x\":\"%*s\"", HUGE_ANSWER, "");
	fputc('}', out);
}

static char handler_data[] = "d";

#define STATUS_ANSWER "{\"status\":\"-\",\"on\":0,\"data\":\"d\"}"

static int
socket_new(const char *where, char **error)
{
	return control_socket_new(where, handle, handler_data, &control, error);
}

static void
socket_start(void)
{
	char *error = NULL;

	ck_assert_msg(socket_new(path, &error) == 0, "%s", error);
	ck_assert_int_eq(control_socket_start(control), 0);
}

static void
directory_make(void)
{
	strcpy(directory, "/tmp/check-control-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/control", directory);
	control = NULL;
	handled = 0;
}

static void
directory_remove(void)
{
	control_socket_free(control);
	unlink(path);
	ck_assert_msg(rmdir(directory) == 0, "%s: %s", directory, strerror(errno));
}

/* A client's reads and writes end after 10 s instead of hanging the test. */
static int
client_socket(void)
{
	struct timeval limit = {.tv_sec = 10};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	return fd;
}

static void
client_connect(int fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	strcpy(address.sun_path, path);
	ck_assert_msg(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "%s",
		      strerror(errno));
}

static int
client_new(void)
{
	int fd = client_socket();

	client_connect(fd);
	return fd;
}

static void
client_send_bytes(int fd, const void *bytes, size_t size)
{
	ck_assert_int_eq(send(fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
}

static void
client_send(int fd, const char *text)
{
	client_send_bytes(fd, text, strlen(text));
}

/* Reads one line, without its newline; "(end)" is the end of the connection. */
static const char *
client_line(int fd)
{
	static char line[8192];
	size_t length = 0;

	while (length < sizeof(line) - 1) {
		ssize_t got = recv(fd, line + length, 1, 0);

		ck_assert_msg(got >= 0, "no answer: %s", strerror(errno));
		if (got == 0) {
			ck_assert_msg(length == 0, "the end came within a line");
			return "(end)";
		}
		if (line[length] == '\n')
			break;
		length++;
	}
	line[length] = '\0';
	return line;
}

/* The server closes the connection now, not when the client's time is over. */
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

/* The server is alive and answers somebody else. */
static void
assert_still_serves(void)
{
	int fd = client_new();

	client_send(fd, "status\n");
	ck_assert_str_eq(client_line(fd), STATUS_ANSWER);
	close(fd);
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
	/* Several in one write, and the last without waiting for the others' answers. */
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
	ck_assert_int_eq(handled, 1000);
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
	ck_assert_uint_eq(total, strlen("{\"resize\":\"huge\",\"on\":0,\"data\":\"d\",\"x\":\"\"}\n") +
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
	ck_assert_int_eq(handled, 1);
	close(fd);
}
END_TEST

START_TEST(nul_byte_in_a_request_is_refused)
{
	int fd = client_new();

	client_send_bytes(fd, "status\0x\nresize export=a\0b\n", 27);
	assert_error_line(fd, "NUL");
	assert_error_line(fd, "NUL");
	ck_assert_int_eq(handled, 0);
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
	ck_assert_int_eq(handled, 0);
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
	ck_assert_int_eq(handled, 0);
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
	ck_assert_int_eq(handled, 0);
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

START_TEST(clients_beyond_the_limit_are_served_when_others_leave)
{
	int early[20], late = client_socket();
	struct pollfd answer = {.fd = late, .events = POLLIN};

	for (int i = 0; i < 20; i++)
		early[i] = client_new();
	client_connect(late);
	client_send(late, "status\n");
	ck_assert_int_eq(poll(&answer, 1, 100), 0);
	for (int i = 0; i < 20; i++)
		close(early[i]);
	ck_assert_str_eq(client_line(late), STATUS_ANSWER);
	close(late);
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

	/* None of them holds up another client. */
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

static atomic_bool starved;
static atomic_int starved_accepts, complaints;

/* Stands in for the C library's accept4(), which is hard to starve without starving the test. */
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
	ck_assert_msg(strstr(text, path) && strstr(text, "Too many open files"), "%s", text);
	complaints++;
}

START_TEST(without_descriptors_clients_wait_and_accept_is_tried_a_few_times_a_second)
{
	int fd;
	struct pollfd answer = {.events = POLLIN};

	log_set_sink(sink_count);
	starved = true;
	answer.fd = fd = client_new();
	client_send(fd, "status\n");
	ck_assert_int_eq(poll(&answer, 1, 500), 0);
	ck_assert_int_ge(starved_accepts, 2);
	ck_assert_int_le(starved_accepts, 10);
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
	first = handler_thread;
	ck_assert(!pthread_equal(first, pthread_self()));
	assert_still_serves();
	ck_assert(pthread_equal(first, handler_thread));
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		ck_assert_int_eq(sigismember(&handler_mask, signals[i]), 1);
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
	control_socket_free(control);
	control = NULL;
	ck_assert_str_eq(client_line(fd), "(end)");
	ck_assert_int_eq(access(path, F_OK), -1);
	close(fd);
}
END_TEST

START_TEST(free_works_without_start_and_with_null)
{
	char *error = NULL;

	ck_assert_int_eq(socket_new(path, &error), 0);
	control_socket_free(control);
	control = NULL;
	ck_assert_int_eq(access(path, F_OK), -1);
	control_socket_free(NULL);
}
END_TEST

START_TEST(client_may_connect_before_start)
{
	char *error = NULL;
	int fd;

	ck_assert_int_eq(socket_new(path, &error), 0);
	fd = client_new();
	client_send(fd, "status\n");
	ck_assert_int_eq(control_socket_start(control), 0);
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

	ck_assert_int_eq(socket_new(path, &error), 0);
	old = control;
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(socket_new(path, &error), 0);
	control_socket_free(old);
	ck_assert_int_eq(control_socket_start(control), 0);
	assert_still_serves();
}
END_TEST

START_TEST(relative_path_is_removed_after_a_change_of_directory)
{
	char *error = NULL;

	ck_assert_int_eq(chdir(directory), 0);
	ck_assert_int_eq(socket_new("control", &error), 0);
	ck_assert_int_eq(access(path, F_OK), 0);
	ck_assert_int_eq(chdir("/"), 0);
	control_socket_free(control);
	control = NULL;
	ck_assert_int_eq(access(path, F_OK), -1);
}
END_TEST

/* A bound socket; it listens when `backlog` >= 0. */
static int
foreign_socket(int type, int backlog)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type, 0);

	ck_assert_int_ge(fd, 0);
	strcpy(address.sun_path, path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	if (backlog >= 0)
		ck_assert_int_eq(listen(fd, backlog), 0);
	return fd;
}

/* Refused with a sentence that names the path and holds `hint`; what is there stays. */
static void
assert_left_alone(int expected, const char *hint)
{
	ino_t before = inode_of(path);
	char *error = NULL;
	int result = socket_new(path, &error);

	ck_assert_int_eq(result, expected);
	ck_assert_ptr_null(control);
	ck_assert_ptr_nonnull(error);
	ck_assert_msg(strstr(error, path) && strstr(error, hint), "%s", error);
	ck_assert_uint_eq(inode_of(path), before);
	free(error);
}

START_TEST(stale_socket_file_is_replaced)
{
	close(foreign_socket(SOCK_STREAM, 1));
	ck_assert_int_eq(access(path, F_OK), 0);
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
	first = control;
	control = NULL;
	assert_left_alone(-EADDRINUSE, "another server listens there");
	control = first;
	assert_still_serves();
}
END_TEST

START_TEST(regular_file_is_left_alone)
{
	int fd = open(path, O_CREAT | O_WRONLY, 0600);

	ck_assert_int_ge(fd, 0);
	close(fd);
	assert_left_alone(-EEXIST, "not a socket");
}
END_TEST

START_TEST(symbolic_link_is_left_alone)
{
	ck_assert_int_eq(symlink("nowhere", path), 0);
	assert_left_alone(-EEXIST, "not a socket");
}
END_TEST

START_TEST(path_too_long_for_a_socket_is_refused_with_the_limit)
{
	char long_path[200], hint[80], *error = NULL;
	size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;

	snprintf(long_path, sizeof(long_path), "%s/%0*d", directory,
		 (int)(most + 1 - strlen(directory) - 1), 0);
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

	snprintf(missing, sizeof(missing), "%s/no/control", directory);
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
	int result = socket_new(path, &error);

	after = umask(before);
	ck_assert_msg(result == 0, "%s", error);
	ck_assert_msg(after == mask, "the process's umask was changed to %o", after);
	ck_assert_int_eq(lstat(path, &file), 0);
	control_socket_free(control);
	control = NULL;
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
	/* It is made with its mode: nothing is left to be changed afterwards. */
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	int fd = inotify_init1(IN_NONBLOCK);
	bool created = false;
	ssize_t size;

	ck_assert_int_ge(inotify_add_watch(fd, directory, IN_CREATE | IN_ATTRIB), 0);
	ck_assert_uint_eq(mode_under_umask(0), 0600);
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

static void
requests_begin(void)
{
	directory_make();
	socket_start();
}

static TCase *
case_requests(void)
{
	TCase *requests = tcase_create("requests");

	tcase_add_checked_fixture(requests, requests_begin, directory_remove);
	tcase_set_timeout(requests, 30);
	tcase_add_test(requests, request_is_answered_on_one_line);
	tcase_add_test(requests, requests_of_one_connection_are_answered_in_order);
	tcase_add_test(requests, thousand_requests_at_once_are_all_answered);
	tcase_add_test(requests, request_in_single_bytes_is_answered);
	tcase_add_test(requests, huge_answer_arrives_whole);
	tcase_add_test(requests, bad_request_is_answered_with_an_error_and_the_next_one_served);
	tcase_add_test(requests, nul_byte_in_a_request_is_refused);
	tcase_add_test(requests, longest_line_is_served);
	tcase_add_test(requests, line_one_byte_too_long_is_refused_and_closed);
	tcase_add_test(requests, client_that_sends_a_megabyte_without_newline_can_read_why);
	tcase_add_test(requests, half_closed_client_gets_its_answer_and_the_end);
	tcase_add_test(requests, cut_off_request_is_not_carried_out);
	tcase_add_test(requests, client_that_leaves_before_its_answer_does_no_harm);
	tcase_add_test(requests, clients_beyond_the_limit_are_served_when_others_leave);
	tcase_add_test(requests,
		       silent_halfway_trickling_and_unreading_clients_are_dropped_after_5_seconds);
	tcase_add_test(requests, patience_starts_anew_with_each_answer);
	tcase_add_test(requests,
		       without_descriptors_clients_wait_and_accept_is_tried_a_few_times_a_second);
	tcase_add_test(requests, handler_runs_on_one_thread_that_takes_no_signals);
	return requests;
}

static TCase *
case_file(void)
{
	TCase *file = tcase_create("file");

	tcase_add_checked_fixture(file, directory_make, directory_remove);
	tcase_set_timeout(file, 30);
	tcase_add_test(file, start_leaves_the_callers_signals_alone);
	tcase_add_test(file, free_ends_connections_and_removes_the_file);
	tcase_add_test(file, free_works_without_start_and_with_null);
	tcase_add_test(file, client_may_connect_before_start);
	tcase_add_test(file, free_leaves_a_file_alone_that_took_the_place);
	tcase_add_test(file, relative_path_is_removed_after_a_change_of_directory);
	tcase_add_test(file, stale_socket_file_is_replaced);
	tcase_add_test(file, socket_that_somebody_listens_on_is_left_alone);
	tcase_add_test(file, socket_with_a_full_backlog_is_left_alone);
	tcase_add_test(file, socket_of_another_type_is_left_alone);
	tcase_add_test(file, second_control_socket_at_one_path_is_refused);
	tcase_add_test(file, regular_file_is_left_alone);
	tcase_add_test(file, symbolic_link_is_left_alone);
	tcase_add_test(file, path_too_long_for_a_socket_is_refused_with_the_limit);
	tcase_add_test(file, empty_path_is_refused);
	tcase_add_test(file, missing_directory_is_refused);
	tcase_add_test(file, socket_is_private_under_any_umask);
	tcase_add_test(file, socket_is_private_from_its_first_moment);
	return file;
}

int
main(void)
{
	Suite *suite = suite_create("control_socket");
	SRunner *runner = srunner_create(suite);
	int failed;

	suite_add_tcase(suite, case_requests());
	suite_add_tcase(suite, case_file());

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
