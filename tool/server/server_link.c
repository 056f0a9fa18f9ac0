/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/server/server_link.h"

#include "tool/failure.h"

#include "common/cleanup.h"

#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PREFIX "nbdloop:"

/* How long an answer may take, all in all. */
#define PATIENCE_SECONDS 5

/* An answer is longer the more connections there are; no server has that many. */
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
fail(const struct link *link, int err, const char *what, GError **error)
{
	return failure(error, err, "%s: the server %s: %s", link->path, what,
		       err == ETIMEDOUT || err == EAGAIN ? "it took too long" : g_strerror(err));
}

static bool
link_open(struct link *link, GError **error)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	/* Also of connect(), which waits when too many others are waiting. */
	struct timeval patience = {.tv_sec = PATIENCE_SECONDS};

	if (strlen(link->path) >= sizeof(address.sun_path))
		return fail(link, ENAMETOOLONG, "can't be connected to", error);
	strcpy(address.sun_path, link->path);
	link->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (link->fd < 0 ||
	    setsockopt(link->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
		return fail(link, errno, "can't be connected to", error);
	if (connect(link->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return fail(link, errno, "can't be connected to", error);
	return true;
}

static bool
link_send(const struct link *link, const char *request, GError **error)
{
	g_autofree char *line = g_strconcat(request, "\n", NULL);

	/* A line is less than a socket takes. */
	if (send(link->fd, line, strlen(line), MSG_NOSIGNAL) < 0)
		return fail(link, errno, "takes no request", error);
	return true;
}

/* Waits for more of the answer.  Returns its size, 0 at the end of it, or a negative errno. */
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
		return fail(link, (int)-size, "doesn't answer", error);
	if (line->len == 0 || line->str[line->len - 1] != '\n')
		return fail(link, EPIPE, "ended before it had answered", error);
	g_string_truncate(line, line->len - 1);
	return true;
}

static bool
link_ask(struct link *link, const char *request, GString *answer, GError **error)
{
	bool done = link_open(link, error) && link_send(link, request, error) &&
		    link_read_line(link, answer, error);

	cleanup_close(&link->fd);
	return done;
}

static JsonObject *
ask(const char *control_path, const char *request, gint64 deadline, GError **error)
{
	struct link link = {control_path, -1, deadline};
	g_autoptr(GString) answer = g_string_new(NULL);
	g_autoptr(JsonNode) root = NULL;
	JsonObject *object;

	if (!link_ask(&link, request, answer, error))
		return NULL;
	root = json_from_string(answer->str, NULL);
	if (!root || !JSON_NODE_HOLDS_OBJECT(root)) {
		fail(&link, EPROTO, "answered with something else than a JSON object", error);
		return NULL;
	}
	object = json_node_get_object(root);
	if (json_object_has_member(object, "error"))
		return FAILURE_NULL(error, EINVAL, "%s",
				    json_object_get_string_member_with_default(
					    object, "error", "the server refuses"));
	return json_object_ref(object);
}

JsonObject *
server_link_ask(const char *control_path, const char *request, GError **error)
{
	return ask(control_path, request,
		   g_get_monotonic_time() + PATIENCE_SECONDS * G_USEC_PER_SEC, error);
}

JsonObject *
server_link_status(const char *backend, GError **error)
{
	g_autofree char *control_path = server_link_path(backend);

	return control_path ? server_link_ask(control_path, "status", error) : NULL;
}

pid_t
server_link_pid(JsonObject *status)
{
	return status ? (pid_t)json_object_get_int_member_with_default(status, "pid", 0) : 0;
}

JsonObject *
server_link_change(const char *control_path, const char *request, GError **error)
{
	return ask(control_path, request, G_MAXINT64, error);
}

JsonObject *
server_link_export(JsonObject *status)
{
	JsonArray *exports = NULL;

	if (status && json_object_has_member(status, "exports"))
		exports = json_object_get_array_member(status, "exports");
	return exports && json_array_get_length(exports) == 1
		       ? json_array_get_object_element(exports, 0)
		       : NULL;
}
