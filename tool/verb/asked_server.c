/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/verb/asked_server.h"

#include "tool/failure.h"
#include "tool/link/server_link.h"
#include "tool/system_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool
is_socket(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* The path of the socket that the text begins with, *export: what follows; NULL: there is none. */
static char *
find_socket(const char *text, const char **export)
{
	/* The path may contain colons, too. */
	for (const char *end = strchrnul(text, ':'); *text; end = strchrnul(end + 1, ':')) {
		g_autofree char *path = g_strndup(text, (gsize)(end - text));

		*export = *end ? end + 1 : NULL;
		if (is_socket(path))
			return g_steal_pointer(&path);
		if (!*end)
			break;
	}
	return NULL;
}

char *
asked_server_socket(const char *text, const char **export)
{
	const char *first = strchrnul(text, ':'), *slash = strchr(text, '/');
	char *path = find_socket(text, export);

	if (path)
		return path;
	*export = *first ? first + 1 : NULL;
	if (slash && slash < first)
		return g_strndup(text, (gsize)(first - text));
	*export = text;
	return system_file_path("%s", ASKED_SERVER_SOCKET);
}

/* An error if there is no such socket; whether its server may be asked is seen then. */
static bool
asked_server_check(const char *path, const char *text, GError **error)
{
	struct stat st;

	if (stat(path, &st) == 0)
		return S_ISSOCK(st.st_mode) ||
		       failure(error, EINVAL, "%s is not the control socket of a server", path);
	if (errno != ENOENT || (text && g_str_has_prefix(text, path)))
		return failure_errno(error, errno, "control socket %s", path);
	if (text && strchr(text, ':'))
		return failure(error, ENOENT,
			       "%.*s is not a control socket, and there is no %s: name the SOCKET "
			       "of a running server",
			       (int)(strchr(text, ':') - text), text, path);
	return failure(error, ENOENT,
		       "there is no control socket %s: start nbdloopd.service, or name another "
		       "SOCKET%s%s",
		       path, text ? ", as in SOCKET:" : "", text ? text : "");
}

bool
asked_server_find_export(struct asked_server *server, const char *text, GError **error)
{
	*server = (struct asked_server){.text = text};
	server->socket = text ? asked_server_socket(text, &server->export)
			      : system_file_path("%s", ASKED_SERVER_SOCKET);
	return asked_server_check(server->socket, text, error) &&
	       (!server->export || request_line("EXPORT", server->export, error));
}

bool
asked_server_is_device(const char *text)
{
	const char *export;
	g_autofree char *device = device_name(text, NULL), *socket = find_socket(text, &export);

	return !socket && (device || g_str_has_prefix(text, "/dev/"));
}

bool
asked_server_names_export(const char *text)
{
	const char *export = NULL;
	g_autofree char *socket =
		asked_server_is_device(text) ? NULL : asked_server_socket(text, &export);

	(void)socket;
	return export;
}

bool
asked_server_find(struct asked_server *server, const char *text, GError **error)
{
	const char *export;
	g_autofree char *socket = find_socket(text, &export);
	g_autoptr(GError) why = NULL;

	*server = (struct asked_server){.text = text};
	if (asked_server_is_device(text))
		return our_device_find_served(&server->ours, text, error);
	if (!socket && strchr(text, '/') && !strchr(text, ':'))
		return failure(error, EINVAL,
			       "%s is neither a device, such as /dev/nbd0, nor the control socket "
			       "of a server%s",
			       text, access(text, F_OK) < 0 ? ": there is no such file" : "");
	if (asked_server_find_export(server, text, &why))
		return true;
	if (!strpbrk(text, "/:") && failure_is(why, ENOENT))
		return failure(error, ENOENT, "%s is no device, such as nbd0; as an export: %s",
			       text, why->message);
	return failure_pass(error, &why);
}

void
asked_server_fini(struct asked_server *server)
{
	our_device_fini(&server->ours);
	g_free(server->socket);
	server->socket = NULL;
}

json_t *
asked_server_ask(const struct asked_server *server, const char *request, GError **error)
{
	return server->socket ? server_link_change(server->socket, request, error)
			      : our_device_change_export(&server->ours, request, error);
}

bool
request_word(const char *what, const char *text, GError **error)
{
	return (*text && !strpbrk(text, " \n")) ||
	       failure(error, EINVAL, "%s \"%s\": must be a word without blanks", what, text);
}

bool
request_line(const char *what, const char *text, GError **error)
{
	return !strchr(text, '\n') ||
	       failure(error, EINVAL, "%s \"%s\": must be one line", what, text);
}
