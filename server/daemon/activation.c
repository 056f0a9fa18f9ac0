/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/activation.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Digits only, and not more than an int holds; -1: something else. */
static long
number(const char *text)
{
	if (!text || !*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 9)
		return -1;
	return atol(text);
}

static int
refuse(char **error, int fd, const char *reason)
{
	if (asprintf(error, "file descriptor %d: %s", fd, reason) < 0)
		*error = NULL;
	return -EINVAL;
}

static int
option(int fd, int name)
{
	socklen_t length = sizeof(int);
	int value = 0;

	return getsockopt(fd, SOL_SOCKET, name, &value, &length) < 0 ? -errno : value;
}

int
activation_check(int fd, bool listening, char **error)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);
	int flags = fcntl(fd, F_GETFD), type = option(fd, SO_TYPE);

	if (flags < 0)
		return refuse(error, fd, "it is not open: whoever starts the server must pass it");
	if (type < 0)
		return refuse(error, fd, "it is not a socket");
	if (type != SOCK_STREAM)
		return refuse(error, fd, "it is not a stream socket");
	if (listening && option(fd, SO_ACCEPTCONN) != 1)
		return refuse(
			error, fd,
			"it is not a listening socket (with systemd: Accept=no); a connected one is passed by --fd");
	if (!listening && getpeername(fd, (struct sockaddr *)&address, &length) < 0)
		return refuse(error, fd, "it is not a connected socket");
	fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
	return 0;
}

int
activation_parse_fd(const char *text, int *fd, char **error)
{
	long value = number(text);

	if (value < 0) {
		if (asprintf(error, "--fd=%s: must be the number of a file descriptor", text) < 0)
			*error = NULL;
		return -EINVAL;
	}
	*fd = (int)value;
	return 0;
}

int
activation_take(bool needed, char **error)
{
	long pid = number(getenv("LISTEN_PID"));
	long count = number(getenv("LISTEN_FDS"));
	int r = 0;

	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	if (pid != getpid() || count < 0)
		count = 0;
	if (count == 0 && needed) {
		*error = strdup(
			"socket-activation=on: no socket was passed (LISTEN_FDS, LISTEN_PID)");
		return *error ? -EINVAL : -ENOMEM;
	}
	for (long i = 0; r == 0 && i < count; i++)
		r = activation_check(ACTIVATION_FIRST + (int)i, true, error);
	return r < 0 ? r : (int)count;
}
