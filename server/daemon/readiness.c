/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/readiness.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un manager; /* .sun_family 0: there is none */
static socklen_t manager_length;
static int notify_fd = -1;

int
readiness_init(unsigned int fd, char **error)
{
	const char *path = getenv("NOTIFY_SOCKET");
	size_t length = path ? strlen(path) : 0;

	/* A path, or "@name" in the abstract namespace. */
	if (length > 1 && length < sizeof(manager.sun_path) && (path[0] == '/' || path[0] == '@')) {
		manager.sun_family = AF_UNIX;
		memcpy(manager.sun_path, path, length);
		if (path[0] == '@')
			manager.sun_path[0] = '\0';
		manager_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
	}
	unsetenv("NOTIFY_SOCKET");
	if (fd == 0)
		return 0;
	notify_fd = (int)fd;
	if (fcntl(notify_fd, F_SETFD, FD_CLOEXEC) == 0)
		return 0;
	return error_set(
		error, -EBADF,
		"--notify-fd=%u: it is not open; the program that starts the server must pass it",
		fd);
}

static void
notify_manager(const char *state)
{
	int CLEANUP_CLOSE fd = -1;

	if (!manager.sun_family)
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL,
			     (const struct sockaddr *)&manager, manager_length) < 0)
		log_warning("cannot tell systemd \"%s\": %s", state, strerror(errno));
}

void
readiness_ready(void)
{
	notify_manager("READY=1");
	if (notify_fd < 0)
		return;
	if (write(notify_fd, "\n", 1) < 0)
		log_warning("--notify-fd=%d: %s", notify_fd, strerror(errno));
	close(notify_fd);
	notify_fd = -1;
}

void
readiness_reloading(void)
{
	char state[64];

	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)clock_ns(CLOCK_MONOTONIC) / 1000);
	notify_manager(state);
}

void
readiness_stopping(void)
{
	notify_manager("STOPPING=1");
}
