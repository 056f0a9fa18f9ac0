/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's HTTP: where it listens, and who may use it.
 */
#include "server/daemon/server.h"

#include "server/config/http_address.h"
#include "server/daemon/listener.h"
#include "server/http/http.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Milliseconds from a client's connection to its end. */
#define CLIENT_LIMIT 10000

static int
open_listeners(struct server *server, char **error)
{
	struct http_address address;
	int r = http_address_parse(server->config->http, &address, error);

	if (r < 0)
		return r;
	if (address.path)
		r = listeners_add_unix(&server->http_listeners, address.path, error);
	else
		r = listeners_add_inet(&server->http_listeners, address.host, address.port,
				       "--http", error);
	http_address_fini(&address);
	return r;
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
