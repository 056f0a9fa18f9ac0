/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_link.h"

#include "tool/failure.h"
#include "tool/guard/guard_files.h"

#include "common/cleanup.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define DONE "done"

enum {
	MESSAGE_MAX = 8192, /* a path and a few words */
	BACKLOG = 16,
	PATIENCE_S = 5, /* for a new connection's request, which is sent at once */
};

/* A SOCK_SEQPACKET socket, and its address.  -1 with an error. */
static int
guard_link_open(const char *path, struct sockaddr_un *address, int flags, GError **error)
{
	int fd;

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(address->sun_path)) {
		failure_errno(error, ENAMETOOLONG, "%s", path);
		return -1;
	}
	strcpy(address->sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
	if (fd < 0)
		failure_errno(error, errno, "a socket can't be made");
	return fd;
}

/* ---- asking */

/* The answer; NULL with an error: the guard has ended. */
static char *
receive_answer(int fd, const char *path, GError **error)
{
	g_autofree char *text = g_malloc(MESSAGE_MAX + 1);
	ssize_t size;

	do {
		size = recv(fd, text, MESSAGE_MAX, 0);
	} while (size < 0 && errno == EINTR);
	if (size <= 0)
		return FAILURE_NULL(error, EPIPE, "%s: the guard ended before it answered", path);
	text[size] = '\0';
	return g_steal_pointer(&text);
}

bool
guard_link_ask(const char *control_path, const char *request, GError **error)
{
	g_autofree char *path = guard_files_path(control_path, 0, "guard");
	struct sockaddr_un address;
	int CLEANUP_CLOSE fd = guard_link_open(path, &address, 0, error);
	g_autofree char *answer = NULL;

	if (fd < 0)
		return false;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return failure(error, errno == ENOENT ? ECONNREFUSED : errno, "%s: %s", path,
			       g_strerror(errno));
	if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		return failure_errno(error, errno, "%s", path);
	answer = receive_answer(fd, path, error);
	if (!answer)
		return false;
	return g_str_equal(answer, DONE) || failure(error, EINVAL, "%s", answer);
}

void
guard_link_forget(const char *control_path)
{
	g_autofree char *path = guard_files_path(control_path, 0, "guard");

	unlink(path);
}

/* ---- the guard's end */

bool
guard_link_listen(struct guard_link *link, const char *control_path, GError **error)
{
	g_autofree char *path = guard_files_path(control_path, 0, "guard");
	struct sockaddr_un address;
	int CLEANUP_CLOSE fd = guard_link_open(path, &address, SOCK_NONBLOCK, error);

	if (fd < 0)
		return false;
	/* It may be left from an earlier guard with the same process ID. */
	unlink(path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || chmod(path, 0600) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return failure_errno(error, errno, "%s", path);
	*link = (struct guard_link){
		.path = g_steal_pointer(&path), .fd = steal_fd(&fd), .pause = ACCEPT_PAUSE_INIT};
	return true;
}

void
guard_link_close(struct guard_link *link)
{
	if (!link->path)
		return;
	unlink(link->path);
	close(link->fd);
	g_free(link->path);
	*link = (struct guard_link){.fd = -1};
}

struct pollfd
guard_link_polled(struct guard_link *link, int *timeout_ms)
{
	int left = accept_pause_left(&link->pause);

	*timeout_ms = accept_pause_timeout(*timeout_ms, left);
	return (struct pollfd){.fd = link->path && !left ? link->fd : -1, .events = POLLIN};
}

char *
guard_link_take(struct guard_link *link, int *peer)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	g_autofree char *text = g_malloc(MESSAGE_MAX + 1);
	int CLEANUP_CLOSE fd =
		link->path ? accept_or_pause(&link->pause, link->fd, SOCK_CLOEXEC, link->path) : -1;
	ssize_t size;

	if (fd < 0)
		return NULL;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	size = recv(fd, text, MESSAGE_MAX, 0);
	if (size <= 0)
		return NULL;
	text[size] = '\0';
	*peer = steal_fd(&fd);
	return g_steal_pointer(&text);
}

void
guard_link_answer(int peer, const GError *error)
{
	const char *text = error ? error->message : DONE;

	/* The process that sent the request may have ended. */
	send(peer, text, MIN(strlen(text), MESSAGE_MAX), MSG_NOSIGNAL);
	close(peer);
}
