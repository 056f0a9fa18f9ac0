/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop-fetch: reads images on web servers by libcurl, for a server that must not do so itself.
 * The engine starts it (engine/backing/http/fetch_process.h), and speaks with it over a socket
 * (engine/backing/http/fetch_wire.h).
 *
 * The first process only leaves the outer one behind, which starts the inner one, and starts it
 * again if it dies by itself. The inner process is in a sandbox before it reads a byte of a server.
 * All end when the engine closes the socket.
 */
#include "engine/backing/http/fetch/confine.h"
#include "engine/backing/http/fetch/transfer.h"
#include "engine/backing/http/fetch_wire.h"

#include "common/cleanup.h"

#include <errno.h>
#include <resolv.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Status of an inner process that wants to be replaced, without a pause. */
#define STATUS_AGAIN 3

/* The longest pause before a new inner process, in seconds. */
#define PAUSE_MAX 8

/* Takes the orders that have come for this process. Returns false when the engine has gone. */
static bool
fetch_take_orders(uint32_t number)
{
	static struct {
		struct fetch_order order;
		char text[FETCH_URL_MAX + FETCH_VALIDATOR_MAX];
	} message;

	for (;;) {
		union {
			char bytes[CMSG_SPACE(sizeof(int))];
			struct cmsghdr align;
		} control;
		struct iovec part = {&message, sizeof(message)};
		struct msghdr header = {.msg_iov = &part,
					.msg_iovlen = 1,
					.msg_control = control.bytes,
					.msg_controllen = sizeof(control.bytes)};
		ssize_t n = recvmsg(FETCH_SOCKET, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		struct cmsghdr *passed = n < 0 ? NULL : CMSG_FIRSTHDR(&header);
		int CLEANUP_CLOSE fd = -1;

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return true;
		if (n < (ssize_t)sizeof(message.order))
			return false;
		if (passed && passed->cmsg_type == SCM_RIGHTS &&
		    passed->cmsg_len == CMSG_LEN(sizeof(int)))
			memcpy(&fd, CMSG_DATA(passed), sizeof(fd));
		if (message.order.inner != number)
			continue;
		transfers_order(&message.order, message.text, (size_t)n - sizeof(message.order),
				fd);
	}
}

static bool
fetch_is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The inner process. */
static _Noreturn void
fetch_run(pid_t outer, uint32_t number)
{
	struct stat before = {0}, now = {0};
	char text[FETCH_TEXT_MAX];

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != outer)
		_exit(0);
	stat(_PATH_RESCONF, &before);
	confine(text, sizeof(text));
	if (transfers_begin(FETCH_SOCKET) < 0)
		_exit(1);
	transfers_answer(&(struct fetch_answer){.type = FETCH_READY}, text, strlen(text));
	while (fetch_take_orders(number)) {
		/* Landlock allows the file that was there, and not one that has replaced it. */
		if (stat(_PATH_RESCONF, &now) == 0 && !fetch_is_same_file(&before, &now))
			_exit(STATUS_AGAIN);
		transfers_turn();
	}
	_exit(0);
}

/* The outer process. It reads nothing from the socket. */
static _Noreturn void
fetch_watch(void)
{
	struct fetch_answer restarted = {.type = FETCH_RESTARTED};
	pid_t outer = getpid();
	unsigned int pause = 1;

	for (;;) {
		pid_t inner = fork();
		int status = 0;

		if (inner == 0)
			fetch_run(outer, restarted.slot);
		while (inner > 0 && waitpid(inner, &status, 0) < 0 && errno == EINTR)
			;
		if (inner > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
			_exit(0);
		restarted.result = 0;
		if (inner < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != STATUS_AGAIN) {
			restarted.result = -ECHILD;
			sleep(pause);
			pause = pause < PAUSE_MAX ? pause * 2 : PAUSE_MAX;
		}
		restarted.slot++;
		if (send(FETCH_SOCKET, &restarted, sizeof(restarted), MSG_NOSIGNAL) < 0)
			_exit(0);
	}
}

int
main(int argc, char **argv)
{
	static const int ignored[] = {SIGHUP, SIGINT, SIGPIPE, SIGTERM};
	struct stat st;
	pid_t outer;

	if (argc != 2 || strcmp(argv[1], FETCH_PROTOCOL) != 0 || fstat(FETCH_SOCKET, &st) < 0 ||
	    !S_ISSOCK(st.st_mode)) {
		fprintf(stderr, FETCH_PROGRAM ": only nbdloopd and nbdkit's loop plugin start "
					      "this program, those of the same version\n");
		return EXIT_FAILURE;
	}
	if (chdir("/") < 0 || confine_user() < 0)
		return EXIT_FAILURE;
	/* A service manager, or a terminal, ends all processes of a server at once. But this one
	 * shall last until the server has carried out its clients' requests. */
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	outer = fork();
	if (outer < 0)
		return EXIT_FAILURE;
	if (outer == 0)
		fetch_watch();
	return EXIT_SUCCESS;
}
