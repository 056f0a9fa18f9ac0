/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server under test: a child process that listens on a unix socket and dies with the test.
 * Its standard error is kept in a file for assertions.
 */
#ifndef TESTS_NBD_SERVER_H
#define TESTS_NBD_SERVER_H

#include "tests/nbd/target.h"

#include <stdbool.h>
#include <sys/types.h>

#define SERVER_PARAMETERS 8

struct server_config {
	const char *file;         /* an image, or */
	const char *dir;          /* a directory of images, served by their names */
	const char *const *names; /* which are these; NULL-terminated.  nbdkit finds
				     them itself, nbdloopd is told each */
	const char *parameters[SERVER_PARAMETERS]; /* further ones, "offset=1M"; NULL-terminated */
	bool read_only;
	bool direct_io_auto;   /* the server may do without direct I/O, whatever the row says */
	unsigned int threads;  /* of nbdkit, per connection: each has a buffer for its request;
				  0: its default */
	unsigned int contexts; /* that all requests share; 0: the server's default */
};

struct server {
	pid_t pid;
	char *socket_path;
	char *log_path;
};

/* Starts a server and waits until it listens; fails the test if it doesn't. */
struct server *
server_start(const struct target *target, const struct server_config *config);

/* Ends it and fails the test unless it ended on request and in good order. */
void
server_stop(struct server *server);

/* True when a line of the log so far contains `first` and, further right, `second` (or NULL). */
bool
server_log_has(const struct server *server, const char *first, const char *second);

/* Fails the test unless the log has such a line; waits for it a little. */
#define server_expect_log(server, first, second)                                                   \
	server_expect_log_at(__FILE__, __LINE__, server, first, second)
void
server_expect_log_at(const char *file, int line, const struct server *server, const char *first,
		     const char *second);

#endif
