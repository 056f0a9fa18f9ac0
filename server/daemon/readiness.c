/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/readiness.h"

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Seconds that the opening of one image, and what follows the end of the last connection, may take
 * without a word: systemd's own default for a start or an end. */
#define PATIENCE 90

/* Bytes of a message, at most. */
#define STATE_MAX 512

static struct sockaddr_un manager;
static socklen_t manager_length;
static int manager_fd = -1; /* -1: there is none */
static uint64_t watchdog_us;

/* 0: it is not a number, or not for this process (sd_watchdog_enabled(3)). */
static uint64_t
watchdog_from_environment(void)
{
	const char *text = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	unsigned long long number;
	char *end;

	if (!text || text[0] < '0' || text[0] > '9' || (pid && atol(pid) != getpid()))
		return 0;
	errno = 0;
	number = strtoull(text, &end, 10);
	return errno || *end ? 0 : number;
}

/* A path, or "@name" in the abstract namespace. */
static int
open_manager(const char *path, char **error)
{
	const struct timeval patience = {.tv_sec = 1};
	size_t length = strlen(path);

	if (length < 2 || length >= sizeof(manager.sun_path) || (path[0] != '/' && path[0] != '@'))
		return error_set(error, -EINVAL,
				 "NOTIFY_SOCKET=%s: it must be the path of a socket, or @NAME",
				 path);
	manager.sun_family = AF_UNIX;
	memcpy(manager.sun_path, path, length);
	if (path[0] == '@')
		manager.sun_path[0] = '\0';
	manager_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
	/* Once, since later, threads may be allowed less. */
	manager_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (manager_fd < 0)
		return -errno;
	setsockopt(manager_fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	return 0;
}

int
readiness_init(char **error)
{
	const char *path = getenv("NOTIFY_SOCKET");
	int r = path && *path ? open_manager(path, error) : 0;

	if (r < 0)
		return r;
	if (manager_fd >= 0)
		watchdog_us = watchdog_from_environment();
	/* No child process must speak in the name of this one. */
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	return 0;
}

static void
notify_manager(const char *state)
{
	static struct log_limit limit = LOG_LIMIT_INIT(3, 60);
	int err;

	if (manager_fd < 0 || sendto(manager_fd, state, strlen(state), MSG_NOSIGNAL,
				     (const struct sockaddr *)&manager, manager_length) >= 0)
		return;
	err = errno;
	if (log_limit_pass(&limit, NULL))
		log_warning("cannot tell systemd \"%s\": %s", state, strerror(err));
}

bool
readiness_wanted(void)
{
	return manager_fd >= 0;
}

uint64_t
readiness_watchdog(void)
{
	return watchdog_us;
}

/* A name may have any bytes; a newline would begin another assignment. */
static void
make_one_line(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ')
			*text = '?';
	}
}

void
readiness_opening(const char *name)
{
	char state[STATE_MAX];

	snprintf(state, sizeof(state),
		 "EXTEND_TIMEOUT_USEC=%d000000\nSTATUS=opening export \"%.200s\"", PATIENCE, name);
	make_one_line(strchr(state, '\n') + 1);
	notify_manager(state);
}

void
readiness_ready(void)
{
	notify_manager("READY=1");
}

void
readiness_serving(unsigned int exports, unsigned int threads)
{
	char state[STATE_MAX];

	snprintf(state, sizeof(state), "STATUS=serving %u export%s on %u thread%s", exports,
		 exports == 1 ? "" : "s", threads, threads == 1 ? "" : "s");
	notify_manager(state);
}

void
readiness_reload_failed(const char *why)
{
	char state[STATE_MAX];

	snprintf(state, sizeof(state),
		 "STATUS=serving with the old configuration, because the new one is wrong: %.400s",
		 why);
	make_one_line(state);
	notify_manager(state);
}

void
readiness_alive(void)
{
	notify_manager("WATCHDOG=1");
}

void
readiness_reloading(void)
{
	char state[STATE_MAX];

	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
		 clock_ns(CLOCK_MONOTONIC) / 1000);
	notify_manager(state);
}

void
readiness_stopping(unsigned int seconds)
{
	char state[STATE_MAX];

	snprintf(state, sizeof(state),
		 "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRIu64
		 "000000\nSTATUS=ending: waits at most %u s for clients and changes",
		 (uint64_t)seconds + PATIENCE, seconds);
	notify_manager(state);
}
