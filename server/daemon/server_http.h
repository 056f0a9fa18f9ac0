/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's HTTP: where it listens, and who may use it.
 */
#ifndef SERVER_DAEMON_SERVER_HTTP_H
#define SERVER_DAEMON_SERVER_HTTP_H

#include "server/config/server_config.h"
#include "server/exports/server_status.h"

struct http;
struct http_socket;
struct listener;

/* All zero: there is none. */
struct server_http {
	struct listener *listeners; /* its thread uses them */
	struct http_socket *sockets;
	struct http *http; /* NULL: none */
};

/* Listens for requests, and reads the token, if the configuration wants HTTP; notes in the status
 * where. 0, or -errno with *error a sentence (caller frees). */
int
server_http_open(struct server_http *own, const struct server_config *config, struct status *status,
		 char **error);

/* Starts to answer requests, and tells the log where. 0 or -errno. */
int
server_http_start(struct server_http *own);

/* Begins the end, as http_stop(); the second one waits for it, while the event loops must still
 * run, and frees what the status tells of it. */
void
server_http_stop(struct server_http *own);
void
server_http_free(struct server_http *own);

#endif
