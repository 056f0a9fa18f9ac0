/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/verb/asked_server.h"

#include "tool/failure.h"
#include "tool/link/server_link.h"

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

bool
asked_server_find(struct asked_server *server, const char *text, GError **error)
{
	g_autofree char *device = device_name(text, NULL);

	*server = (struct asked_server){.socket = NULL};
	if (!is_socket(text) && !device && !g_str_has_prefix(text, "/dev/"))
		return failure(error, EINVAL,
			       "%s is neither a device, such as /dev/nbd0, nor the control socket "
			       "of a server%s",
			       text, access(text, F_OK) < 0 ? ": there is no such file" : "");
	if (!is_socket(text))
		return our_device_find_served(&server->ours, text, error);
	server->socket = text;
	return true;
}

void
asked_server_fini(struct asked_server *server)
{
	our_device_fini(&server->ours);
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
