/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A control socket in a directory of its own, a handler that answers with what it was asked, and
 * clients that fail the test instead of hanging it.
 */
#ifndef TESTS_UNIT_CONTROL_FIXTURE_H
#define TESTS_UNIT_CONTROL_FIXTURE_H

#include "control/control_socket.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Spaces in the answer about the export "huge": more than a socket buffer holds. */
#define HUGE_ANSWER (2 << 20)

/* The handler's answer to "status". */
#define STATUS_ANSWER "{\"status\":\"-\",\"on\":0,\"data\":\"d\"}"

/* One for the program; Check runs each test in a process of its own. */
extern struct control_fixture {
	char directory[64];
	char path[108];                 /* in the directory; nothing is there at first */
	struct control_socket *control; /* freed at the end; NULL: there is none */
	atomic_int handled;             /* requests that reached the handler */
	sigset_t handler_mask;          /* the signals blocked in the last status... */
	pthread_t handler_thread;       /* ...and the thread of that */
	sigset_t change_mask;           /* the same of the last change */
	pthread_t change_thread;
	atomic_bool hold;    /* changes last as long as it is set */
	atomic_int changing; /* changes that are running, and the most at once */
	atomic_int changing_most;
} fixture;

/* With the directory only, or with a socket that was started at the path. */
void
fixture_begin(void);
void
fixture_begin_serving(void);

/* Fails the test if the directory holds anything but the path. */
void
fixture_end(void);

/* control_socket_new() with the fixture's handler, into `fixture.control`. */
int
socket_new(const char *where, char **error);

/* A new one at the path, started. */
void
socket_start(void);

/* A client's reads and writes end after 10 s instead of hanging the test. */
int
client_socket(void);
void
client_connect(int fd);

/* Both. */
int
client_new(void);

void
client_send_bytes(int fd, const void *bytes, size_t size);
void
client_send(int fd, const char *text);

/* Reads one line, without its newline; "(end)" is the end of the connection. */
const char *
client_line(int fd);

/* The server is alive and answers another client. */
void
assert_still_serves(void);

#endif
