/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/activation.h"

#include "server/config/server_config.h"

#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* -1: not only digits, or more than an int holds. */
static long
parse_number(const char *text)
{
	if (!text || !*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 9)
		return -1;
	return atol(text);
}

static int
socket_option(int fd, int name)
{
	socklen_t length = sizeof(int);
	int value = 0;

	return getsockopt(fd, SOL_SOCKET, name, &value, &length) < 0 ? -errno : value;
}

static const char *
socket_why_unfit(int fd, int wanted, bool listening)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);
	int type = socket_option(fd, SO_TYPE);

	if (fcntl(fd, F_GETFD) < 0)
		return "it is not open; the program that starts the server must pass it";
	if (type < 0)
		return "it is not a socket";
	if (type != wanted)
		return wanted == SOCK_STREAM ? "it is not a stream socket"
					     : "it is not a socket of type SOCK_SEQPACKET";
	if (listening && socket_option(fd, SO_ACCEPTCONN) != 1)
		return "it is not a listening socket (with systemd: Accept=no); a connected one is passed by --fd";
	if (!listening && getpeername(fd, (struct sockaddr *)&address, &length) < 0)
		return "it is not a connected socket";
	return NULL;
}

static int
check_socket(int fd, int type, bool listening, char **error)
{
	const char *problem = socket_why_unfit(fd, type, listening);

	if (problem)
		return error_set(error, -EINVAL, "file descriptor %d: %s", fd, problem);
	fcntl(fd, F_SETFD, fcntl(fd, F_GETFD) | FD_CLOEXEC);
	return 0;
}

int
activation_check_fd(int fd, int type, char **error)
{
	return check_socket(fd, type, false, error);
}

int
activation_check_fds(char *const *texts, char **error)
{
	int r = 0;

	for (char *const *text = texts; r == 0 && text && *text; text++) {
		long fd = parse_number(*text);

		if (fd < 0)
			return error_set(error, -CONFIG_MISTAKE,
					 "--fd=%s: must be the number of a file descriptor", *text);
		/* A connection can't be served twice. */
		for (char *const *before = texts; before < text; before++) {
			if (parse_number(*before) == fd)
				return error_set(error, -CONFIG_MISTAKE,
						 "--fd=%ld: it is given twice", fd);
		}
		r = activation_check_fd((int)fd, SOCK_STREAM, error);
	}
	return r;
}

int
activation_take(bool needed, char **error)
{
	long pid = parse_number(getenv("LISTEN_PID"));
	long count = parse_number(getenv("LISTEN_FDS"));
	int r = 0;

	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	if (pid != getpid() || count < 0)
		count = 0;
	if (count == 0 && needed) {
		return error_set(
			error, -EINVAL,
			"socket-activation=on: no socket was passed (LISTEN_FDS, LISTEN_PID)");
	}
	for (long i = 0; r == 0 && i < count; i++)
		r = check_socket(ACTIVATION_FIRST + (int)i, SOCK_STREAM, true, error);
	return r < 0 ? r : (int)count;
}
