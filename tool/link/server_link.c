/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/link/server_link.h"

#include "tool/failure.h"

#include "common/cleanup.h"

#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PREFIX "nbdloop:"

/* An answer grows with the number of connections; no server has enough for this. */
#define ANSWER_MAX (64 << 20)

char *
server_link_backend(const char *control_path)
{
	return g_strconcat(PREFIX, control_path, NULL);
}

char *
server_link_path(const char *backend)
{
	if (!backend || !g_str_has_prefix(backend, PREFIX "/"))
		return NULL;
	return g_strdup(backend + strlen(PREFIX));
}

/* ---- the conversation */

struct link {
	const char *path;
	int fd;
	gint64 deadline; /* g_get_monotonic_time(); G_MAXINT64: none */
};

static bool
link_failure(const struct link *link, int err, const char *what, GError **error)
{
	return failure(error, err, "%s: the server %s: %s", link->path, what,
		       err == ETIMEDOUT || err == EAGAIN ? "it took too long" : g_strerror(err));
}

static bool
link_open(struct link *link, GError **error)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const gint64 left = link->deadline - g_get_monotonic_time(),
		     most = CLAMP(left, 1, SERVER_LINK_PATIENCE);
	/* Also limits connect(), which waits when the backlog is full. */
	struct timeval patience = {.tv_sec = most / G_USEC_PER_SEC,
				   .tv_usec = most % G_USEC_PER_SEC};

	if (strlen(link->path) >= sizeof(address.sun_path))
		return link_failure(link, ENAMETOOLONG, "can't be connected to", error);
	strcpy(address.sun_path, link->path);
	link->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (link->fd < 0 ||
	    setsockopt(link->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
		return link_failure(link, errno, "can't be connected to", error);
	if (connect(link->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return link_failure(link, errno, "can't be connected to", error);
	return true;
}

/* Waits for more of the answer.  Returns the number of bytes, 0 at its end, or a negative errno. */
static ssize_t
link_receive(const struct link *link, char *buffer, size_t size)
{
	struct pollfd ready = {.fd = link->fd, .events = POLLIN};
	ssize_t received;
	int r;

	do {
		gint64 left = link->deadline - g_get_monotonic_time();

		r = left <= 0 ? 0
			      : poll(&ready, 1,
				     link->deadline == G_MAXINT64 ? -1 : (int)(left / 1000) + 1);
	} while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r == 0 ? -ETIMEDOUT : -errno;
	received = recv(link->fd, buffer, size, 0);
	return received < 0 ? -errno : received;
}

/* A line without its newline. */
static bool
link_read_line(const struct link *link, GString *line, GError **error)
{
	char buffer[16384];
	ssize_t size;

	do {
		size = link_receive(link, buffer, sizeof(buffer));
		if (size > 0)
			g_string_append_len(line, buffer, size);
	} while (size > 0 && buffer[size - 1] != '\n' && line->len < ANSWER_MAX);
	if (size < 0)
		return link_failure(link, (int)-size, "doesn't answer", error);
	if (line->len == 0 || line->str[line->len - 1] != '\n')
		return link_failure(link, EPIPE, "ended before it answered", error);
	g_string_truncate(line, line->len - 1);
	return true;
}

/*
 * A copy of JSON text in which integers above INT64_MAX are strings: jansson has no larger ones,
 * and refuses the whole text.  The inode numbers of network file systems may be as large as 64 bits
 * allow.  Caller frees.
 */
static char *
quote_large_integers(const char *text)
{
	GString *copy = g_string_new(NULL);
	bool in_string = false;

	while (*text) {
		size_t number = in_string ? 0 : strspn(text, "0123456789+-.eE");
		size_t length = MAX(number, 1);
		bool large = number > 0 && strspn(text, "0123456789") == number &&
			     g_ascii_strtoull(text, NULL, 10) > G_MAXINT64;

		if (*text == '"')
			in_string = !in_string;
		else if (*text == '\\' && text[1])
			length = 2;
		if (large)
			g_string_append_printf(copy, "\"%.*s\"", (int)length, text);
		else
			g_string_append_len(copy, text, (gssize)length);
		text += length;
	}
	return g_string_free(copy, FALSE);
}

json_t *
server_link_ask_until(const char *control_path, const char *request, gint64 deadline,
		      GError **error)
{
	struct link link = {control_path, -1, deadline};
	g_autoptr(GString) answer = g_string_new(NULL);
	g_autofree char *text = NULL;
	json_auto_t *object = NULL;
	json_t *refusal;
	g_autofree char *line = g_strconcat(request, "\n", NULL);
	/* A socket takes a whole line at once. */
	bool done = link_open(&link, error) &&
		    (send(link.fd, line, strlen(line), MSG_NOSIGNAL) >= 0 ||
		     link_failure(&link, errno, "accepts no request", error)) &&
		    link_read_line(&link, answer, error);

	cleanup_close(&link.fd);
	if (!done)
		return NULL;
	text = quote_large_integers(answer->str);
	object = json_loads(text, 0, NULL);
	if (!json_is_object(object)) {
		link_failure(&link, EPROTO, "answered with something other than a JSON object",
			     error);
		return NULL;
	}
	refusal = json_object_get(object, "error");
	if (refusal)
		return FAILURE_NULL(error, EINVAL, "%s",
				    json_string_value(refusal) ?: "the server refuses");
	return json_incref(object);
}

json_t *
server_link_ask(const char *control_path, const char *request, GError **error)
{
	return server_link_ask_until(control_path, request,
				     g_get_monotonic_time() + SERVER_LINK_PATIENCE, error);
}

json_t *
server_link_status(const char *backend, GError **error)
{
	g_autofree char *control_path = server_link_path(backend);

	return control_path ? server_link_ask(control_path, "status", error) : NULL;
}

/* The kernel tells which process listens on the socket. */
pid_t
server_link_owner(const char *backend)
{
	g_autofree char *control_path = server_link_path(backend);
	struct link link = {control_path, -1, g_get_monotonic_time() + SERVER_LINK_PATIENCE};
	struct ucred owner = {.pid = 0};
	socklen_t length = sizeof(owner);

	if (control_path && link_open(&link, NULL) &&
	    getsockopt(link.fd, SOL_SOCKET, SO_PEERCRED, &owner, &length) < 0)
		owner.pid = 0;
	cleanup_close(&link.fd);
	return owner.pid;
}

pid_t
server_link_pid(json_t *status)
{
	return (pid_t)json_integer_value(json_object_get(status, "pid"));
}

json_t *
server_link_change(const char *control_path, const char *request, GError **error)
{
	return server_link_ask_until(control_path, request, G_MAXINT64, error);
}

json_t *
server_link_export(json_t *status)
{
	json_t *export, *only = NULL;
	size_t i;

	json_array_foreach(json_object_get(status, "exports"), i, export)
	{
		if (json_object_get(export, "snapshot"))
			continue;
		if (only)
			return NULL;
		only = export;
	}
	return only;
}
