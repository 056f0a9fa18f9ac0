/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/control_fixture.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

struct control_fixture fixture;

static void
change(void)
{
	int now = ++fixture.changing;

	if (now > fixture.changing_most)
		fixture.changing_most = now;
	fixture.change_thread = pthread_self();
	pthread_sigmask(SIG_SETMASK, NULL, &fixture.change_mask);
	while (fixture.hold)
		usleep(1000);
	fixture.changing--;
}

static void
handle(const struct control_request *request, FILE *out, void *data)
{
	static const char *const verbs[] = {
		[CONTROL_STATUS] = "status",
		[CONTROL_SET] = "set",
		[CONTROL_RESIZE] = "resize",
		[CONTROL_RELOAD] = "reload",
	};

	fixture.handled++;
	if (request->verb == CONTROL_STATUS) {
		fixture.handler_thread = pthread_self();
		pthread_sigmask(SIG_SETMASK, NULL, &fixture.handler_mask);
	} else {
		change();
	}
	fprintf(out, "{\"%s\":\"%s\",\"on\":%d,\"data\":\"%s\"", verbs[request->verb],
		request->export_name ? request->export_name : "-", request->direct_io,
		(const char *)data);
	if (request->export_name && !strcmp(request->export_name, "huge"))
		fprintf(out, ",\"x\":\"%*s\"", HUGE_ANSWER, "");
	fputc('}', out);
}

static char handler_data[] = "d";

int
socket_new(const char *where, char **error)
{
	return control_socket_new(where, handle, handler_data, &fixture.control, error);
}

void
socket_start(void)
{
	char *error = NULL;

	ck_assert_msg(socket_new(fixture.path, &error) == 0, "%s", error);
	ck_assert_int_eq(control_socket_start(fixture.control), 0);
}

void
fixture_begin(void)
{
	strcpy(fixture.directory, "/tmp/check-control-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(fixture.directory));
	snprintf(fixture.path, sizeof(fixture.path), "%s/control", fixture.directory);
	fixture.control = NULL;
	fixture.handled = 0;
}

void
fixture_begin_serving(void)
{
	fixture_begin();
	socket_start();
}

void
fixture_end(void)
{
	control_socket_free(fixture.control);
	unlink(fixture.path);
	ck_assert_msg(rmdir(fixture.directory) == 0, "%s: %s", fixture.directory, strerror(errno));
}

int
client_socket(void)
{
	struct timeval limit = {.tv_sec = 10};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	return fd;
}

void
client_connect(int fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	strcpy(address.sun_path, fixture.path);
	ck_assert_msg(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "%s",
		      strerror(errno));
}

int
client_new(void)
{
	int fd = client_socket();

	client_connect(fd);
	return fd;
}

void
client_send_bytes(int fd, const void *bytes, size_t size)
{
	ck_assert_int_eq(send(fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
}

void
client_send(int fd, const char *text)
{
	client_send_bytes(fd, text, strlen(text));
}

const char *
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

void
assert_still_serves(void)
{
	int fd = client_new();

	client_send(fd, "status\n");
	ck_assert_str_eq(client_line(fd), STATUS_ANSWER);
	close(fd);
}
