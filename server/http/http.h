/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's HTTP: a page for people, and the status and metrics for programs (route.h). It only
 * shows, and changes nothing. It has a thread of its own, so no request to an image waits for it,
 * and the event loops are asked for their connections at most ten times a second, however many
 * clients ask. At most sixteen clients are connected at a time, each for one request and for a
 * limited time; others wait in the backlog, and get the places of those that have closed, or that
 * are silent.
 */
#ifndef SERVER_HTTP_HTTP_H
#define SERVER_HTTP_HTTP_H

#include <stdbool.h>

struct http;
struct status;

/* A listening socket, which is not blocking. */
struct http_socket {
	int fd;
	const char *name; /* for the log */
	bool is_unix;
};

struct http_config {
	const struct http_socket *sockets; /* the caller's, until http_free() */
	unsigned int count;                /* of them */
	const char *token_file;            /* NULL: no token is needed */
	int client_limit;                  /* ms from a client's connection to its end */
	const struct status *status;       /* the caller's, until http_free() */
};

/* Reads the token, and prepares all but the thread. Returns 0 with *http (http_free()), or -errno
 * with *error a sentence (the caller frees). */
int
http_new(const struct http_config *config, struct http **http, char **error);

/* Starts the thread, when the event loops run. 0 or -errno. */
int
http_start(struct http *http);

/* Begins the end without waiting for it: after the answer that the thread is making, it refuses
 * clients, and ends all connections. NULL is fine. */
void
http_stop(struct http *http);

/* Returns whether the end is complete, or there was no beginning. True for NULL. */
bool
http_is_over(struct http *http);

/* Ends the thread, as http_stop(), waits for that, and frees all. The event loops must still run.
 * NULL is fine. */
void
http_free(struct http *http);

#endif
