/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's HTTP: where it listens, and who may use it.
 */
#include "server/daemon/server.h"

#include "server/daemon/listener.h"
#include "server/http/http.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIX_PREFIX "unix:"

/* Milliseconds from a client's connection to its end. */
#define CLIENT_LIMIT 10000

static int
malformed(const char *text, char **error)
{
	return error_set(
		error, -EINVAL,
		"--http=%s: must be ADDRESS:PORT, such as localhost:9140 or [::1]:9140, or "
		"unix:PATH",
		text);
}

/* Whether `port` is a number that fits; 0 lets the kernel choose. */
static bool
parse_port(const char *text, unsigned int *port)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	*port = (unsigned int)value;
	return *text >= '0' && *text <= '9' && *end == '\0' && value <= 65535;
}

static int
open_inet(struct server *server, const char *text, char **error)
{
	const char *colon = strrchr(text, ':');
	char *CLEANUP_FREE host = colon ? strndup(text, (size_t)(colon - text)) : NULL;
	size_t length = host ? strlen(host) : 0;
	unsigned int port;

	if (length == 0 || !parse_port(colon + 1, &port))
		return malformed(text, error);
	if (host[0] == '[' && host[length - 1] == ']') {
		host[length - 1] = '\0';
		return listeners_add_inet(&server->http_listeners, host + 1, port, "--http", error);
	}
	/* An IPv6 address without brackets: its last part is no port. */
	if (strchr(host, ':'))
		return malformed(text, error);
	return listeners_add_inet(&server->http_listeners, host, port, "--http", error);
}

static int
open_listeners(struct server *server, char **error)
{
	const char *text = server->config->http;
	size_t prefix = strlen(UNIX_PREFIX);

	if (strncmp(text, UNIX_PREFIX, prefix) != 0)
		return open_inet(server, text, error);
	if (!text[prefix])
		return malformed(text, error);
	return listeners_add_unix(&server->http_listeners, text + prefix, error);
}

/* Makes the list of sockets.  0, or -errno with *error. */
static int
list_sockets(struct server *server, unsigned int *count, char **error)
{
	*count = 0;
	for (const struct listener *listener = server->http_listeners; listener;
	     listener = listener->next) {
		if (listener->network && !server->config->http_token)
			return error_set(
				error, -EINVAL,
				"--http=%s: other machines can reach %s, and everybody there could "
				"see the exports and who uses them: choose localhost or a unix "
				"socket, or make a token that clients must know "
				"(--http-token=FILE)",
				server->config->http, listener->text);
		++*count;
	}
	server->http_sockets = calloc(*count, sizeof(*server->http_sockets));
	if (!server->http_sockets)
		return -ENOMEM;
	*count = 0;
	for (const struct listener *listener = server->http_listeners; listener;
	     listener = listener->next)
		server->http_sockets[(*count)++] = (struct http_socket){
			.fd = listener->fd,
			.name = listener->text,
			.is_unix = listener->file.path != NULL,
		};
	return 0;
}

int
server_open_http(struct server *server, char **error)
{
	struct http_config config = {
		.token_file = server->config->http_token,
		.client_limit = CLIENT_LIMIT,
		.status = &server->status,
	};
	int r;

	if (!server->config->http)
		return 0;
	r = open_listeners(server, error);
	if (r == 0)
		r = list_sockets(server, &config.count, error);
	if (r < 0)
		return r;
	config.sockets = server->http_sockets;
	server->status.http = config.sockets[0].name;
	return http_new(&config, &server->http, error);
}

int
server_start_http(struct server *server)
{
	int r;

	if (!server->http)
		return 0;
	r = http_start(server->http);
	if (r < 0)
		return r;
	for (const struct listener *listener = server->http_listeners; listener;
	     listener = listener->next) {
		if (listener->file.path)
			log_info("page and metrics by HTTP on the unix socket %s", listener->text);
		else
			log_info("page and metrics on http://%s/", listener->text);
	}
	return 0;
}

void
server_stop_http(struct server *server)
{
	http_stop(server->http);
	for (struct listener *listener = server->http_listeners; listener;
	     listener = listener->next)
		unix_socket_remove(&listener->file);
}

void
server_free_http(struct server *server)
{
	http_free(steal_pointer(&server->http));
	listeners_close(&server->http_listeners);
	free(steal_pointer(&server->http_sockets));
}
