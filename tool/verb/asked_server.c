/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/verb/asked_server.h"

#include "tool/failure.h"
#include "tool/server/server_link.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static bool
is_socket(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

bool
asked_server_find(struct asked_server *server, const char *text, GError **error)
{
	*server = (struct asked_server){.socket = NULL};
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
