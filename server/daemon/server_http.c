/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/server_http.h"

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
http_open_listeners(struct server_http *own, const struct server_config *config, char **error)
{
	struct http_address address;
	int r = http_address_parse(config->http, &address, error);

	if (r < 0)
		return r;
	if (address.path)
		r = listeners_add_unix(&own->listeners, address.path, false, error);
	else
		r = listeners_add_inet(&own->listeners, address.host, address.port, "--http",
				       error);
	http_address_fini(&address);
	return r;
}

/* Makes the list of sockets. 0, or -errno with *error. */
static int
http_list_sockets(struct server_http *own, const struct server_config *config, unsigned int *count,
		  char **error)
{
	*count = 0;
	for (const struct listener *listener = own->listeners; listener;
	     listener = listener->next) {
		if (listener->network && !config->http_token)
			return error_set(
				error, -CONFIG_MISTAKE,
				"--http=%s: other machines can reach %s, and everybody there could "
				"see the exports and who uses them: choose localhost or a unix "
				"socket, or make a token that clients must know "
				"(--http-token=FILE)",
				config->http, listener->text);
		++*count;
	}
	own->sockets = calloc(*count, sizeof(*own->sockets));
	if (!own->sockets)
		return -ENOMEM;
	*count = 0;
	for (const struct listener *listener = own->listeners; listener; listener = listener->next)
		own->sockets[(*count)++] = (struct http_socket){
			.fd = listener->fd,
			.name = listener->text,
			.is_unix = listener->file.path != NULL,
		};
	return 0;
}

int
server_http_open(struct server_http *own, const struct server_config *config, struct status *status,
		 char **error)
{
	struct http_config wanted = {
		.token_file = config->http_token,
		.client_limit = CLIENT_LIMIT,
		.status = status,
	};
	int r;

	if (!config->http)
		return 0;
	r = http_open_listeners(own, config, error);
	if (r == 0)
		r = http_list_sockets(own, config, &wanted.count, error);
	if (r < 0)
		return r;
	wanted.sockets = own->sockets;
	status->http = wanted.sockets[0].name;
	return http_new(&wanted, &own->http, error);
}

int
server_http_start(struct server_http *own)
{
	int r;

	if (!own->http)
		return 0;
	r = http_start(own->http);
	if (r < 0)
		return r;
	for (const struct listener *listener = own->listeners; listener;
	     listener = listener->next) {
		if (listener->file.path)
			log_info("page and metrics by HTTP on the unix socket %s", listener->text);
		else
			log_info("page and metrics on http://%s/", listener->text);
	}
	return 0;
}

void
server_http_stop(struct server_http *own)
{
	http_stop(own->http);
	for (struct listener *listener = own->listeners; listener; listener = listener->next)
		unix_socket_remove(&listener->file);
}

void
server_http_free(struct server_http *own)
{
	http_free(steal_pointer(&own->http));
	listeners_close(&own->listeners);
	free(steal_pointer(&own->sockets));
}
