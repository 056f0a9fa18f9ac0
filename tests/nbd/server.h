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
	const char *const *names; /* names of the images, ended by NULL. nbdkit finds them itself;
				     nbdloopd gets an option for each */
	const char *parameters[SERVER_PARAMETERS]; /* further settings such as "offset=1M"; ended by
						      NULL */
	bool read_only;
	bool direct_io_auto; /* the server may do without direct I/O, whatever the row says */
	unsigned int
		threads; /* nbdkit's threads per connection, with a buffer each; 0: its default */
	unsigned int contexts; /* memory for all requests; 0: the server's default */
};

/* The user whose key the file has. */
#define SERVER_USER "tester"

struct server {
	pid_t pid;
	char *socket_path;
	char *psk_path; /* of a server with TLS, or NULL */
	char *log_path;
};

/* Starts a server and waits until it listens; fails the test if it doesn't. */
struct server *
server_start(const struct target *target, const struct server_config *config);

/* Ends the server, and fails the test unless it ended properly. */
void
server_stop(struct server *server);

/* True if a line of the log so far contains `first` and, after it, `second` (or NULL). */
bool
server_log_has(const struct server *server, const char *first, const char *second);

/* Waits for such a line for a moment, and fails the test if there is none. */
#define server_expect_log(server, first, second)                                                   \
	server_expect_log_at(__FILE__, __LINE__, server, first, second)
void
server_expect_log_at(const char *file, int line, const struct server *server, const char *first,
		     const char *second);

#endif
