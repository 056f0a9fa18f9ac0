/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/server_link.h"

#include "tool/failure.h"

#include "common/cleanup.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PREFIX "nbdloop:"

enum {
	PATIENCE = 5, /* seconds */
};

char *
server_link_backend(const char *control_path)
{
	return g_strconcat(PREFIX, control_path, NULL);
}

char *
server_link_path(const char *backend)
{
	return backend && g_str_has_prefix(backend, PREFIX) ? g_strdup(backend + strlen(PREFIX)) : NULL;
}

static int
connect_to(const char *path)
{
	const struct timeval patience = {.tv_sec = PATIENCE};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int CLEANUP_CLOSE fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return steal_fd(&fd);
}

/* The answer's line, or NULL with errno. */
static char *
talk(int fd, const char *request)
{
	g_autofree char *line = g_strconcat(request, "\n", NULL);
	g_autoptr(GString) answer = g_string_new(NULL);
	char bytes[8192];
	ssize_t n;

	if (send(fd, line, strlen(line), MSG_NOSIGNAL) != (ssize_t)strlen(line))
		return NULL;
	while ((n = recv(fd, bytes, sizeof(bytes), 0)) > 0) {
		g_string_append_len(answer, bytes, n);
		if (answer->str[answer->len - 1] == '\n')
			return g_string_free(g_steal_pointer(&answer), false);
	}
	if (n == 0)
		errno = ECONNRESET;
	return NULL;
}

JsonObject *
server_link_ask(const char *control_path, const char *request, GError **error)
{
	g_autoptr(JsonParser) parser = json_parser_new();
	g_autofree char *answer = NULL;
	int CLEANUP_CLOSE fd = connect_to(control_path);
	JsonObject *object;
	JsonNode *root;

	if (fd >= 0)
		answer = talk(fd, request);
	if (!answer) {
		int err = fd < 0 ? -fd : errno;

		failure(error, err, "no answer from the server's control socket %s: %s", control_path, g_strerror(err));
		return NULL;
	}
	root = json_parser_load_from_data(parser, answer, -1, NULL) ? json_parser_get_root(parser) : NULL;
	if (!root || !JSON_NODE_HOLDS_OBJECT(root)) {
		failure(error, EPROTO, "the server's control socket %s answers something strange", control_path);
		return NULL;
	}
	object = json_node_get_object(root);
	if (json_object_has_member(object, "error")) {
		failure(error, EINVAL, "%s", json_object_get_string_member(object, "error"));
		return NULL;
	}
	return json_object_ref(object);
}
