/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/http/fetch_process.h"

#include "engine/backing/http/fetch_wire.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* What libcurl and the C library's resolver take from the environment: no other secrets are for
 * nbdloop-fetch. libcurl ignores HTTP_PROXY. */
static const char *const fetch_variables[] = {
	"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",   "ALL_PROXY",       "no_proxy",
	"NO_PROXY",   "LOCALDOMAIN", "RES_OPTIONS", "HOSTALIASES", "LD_LIBRARY_PATH",
};

#define FETCH_VARIABLES (sizeof(fetch_variables) / sizeof(fetch_variables[0]))

static void
fetch_process_pick_environment(char *picked[FETCH_VARIABLES + 1])
{
	size_t count = 0;

	for (size_t i = 0; i < FETCH_VARIABLES; i++) {
		size_t length = strlen(fetch_variables[i]);

		for (char **entry = environ; entry && *entry; entry++) {
			if (strncmp(*entry, fetch_variables[i], length) == 0 &&
			    (*entry)[length] == '=') {
				picked[count++] = *entry;
				break;
			}
		}
	}
	picked[count] = NULL;
}

/* With none of this process's descriptors but the socket, and none of its signal settings. */
static int
fetch_process_spawn(const char *program, int socket, pid_t *pid)
{
	char *arguments[] = {(char *)(uintptr_t)FETCH_PROGRAM, (char *)(uintptr_t)FETCH_PROTOCOL,
			     NULL};
	char *environment[FETCH_VARIABLES + 1];
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t signals;
	int r;

	fetch_process_pick_environment(environment);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	/* First, since this process may have no descriptor below 3 open. */
	posix_spawn_file_actions_adddup2(&actions, socket, FETCH_SOCKET);
	for (int fd = 0; fd < FETCH_SOCKET; fd++)
		posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_addclosefrom_np(&actions, FETCH_SOCKET + 1);
	sigemptyset(&signals);
	posix_spawnattr_setsigmask(&attributes, &signals);
	sigfillset(&signals);
	posix_spawnattr_setsigdefault(&attributes, &signals);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	r = posix_spawn(pid, program, &actions, &attributes, arguments, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

/* The first process leaves the others to init, and ends at once. Where a program ignores SIGCHLD,
 * there is nothing to wait for. */
static int
fetch_process_await(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno == ECHILD)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ENOEXEC;
}

int
fetch_process_start(char **error)
{
	/* For a build that is not installed. */
	const char *chosen = secure_getenv("NBDLOOP_MODULES");
	char *CLEANUP_FREE program = NULL;
	int CLEANUP_CLOSE there = -1;
	int sockets[2];
	pid_t pid;
	int r;

	if (asprintf(&program, "%s/" FETCH_PROGRAM,
		     chosen && chosen[0] ? chosen : MODULE_DIRECTORY) < 0) {
		program = NULL;
		return error_set(error, -ENOMEM, FETCH_PROGRAM ": %s", strerror(ENOMEM));
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return error_set(error, -errno, FETCH_PROGRAM ": no socket for it: %s",
				 strerror(errno));
	there = sockets[1];
	r = fetch_process_spawn(program, there, &pid);
	if (r == 0)
		r = fetch_process_await(pid);
	if (r == 0)
		return sockets[0];
	close(sockets[0]);
	return error_set(
		error, r,
		"images on web servers need %s, which can't be started: %s; it is in Debian's package nbdloop-remote, "
		"or configure --with-curl builds it",
		program, strerror(-r));
}
