/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that serves an image (tool/server/server_command.h), and what it says.
 */
#ifndef TOOL_SERVER_SERVER_PROCESS_H
#define TOOL_SERVER_SERVER_PROCESS_H

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

struct server_process {
	pid_t pid;       /* 0: none runs */
	int output;      /* where it says something, not blocking; -1: none */
	GString *unread; /* the beginning of a line */
};

/* How a line of the server is passed on: the level is one of common/log.h, the text without the
 * server's name. */
typedef void (*server_process_listener)(int level, const char *text, void *data);

void
server_process_init(struct server_process *server);

/*
 * Starts words[0] (a path) with the others as its argv[], and with these sockets, which have the
 * descriptors from SERVER_FIRST_SOCKET on there; the caller closes its own.  `listening`: they are
 * told as systemd tells them (sd_listen_fds(3)).  It is in a session of its own: no key of a
 * terminal ends it.
 */
bool
server_process_start(struct server_process *server, char **words, const int *sockets,
		     unsigned int count, bool listening, GError **error);

/* Passes on all that it has said so far. */
void
server_process_listen(struct server_process *server, server_process_listener listener, void *data);

/* Whether it has ended, with *status as of waitpid() then; what it said last is still to be
 * listened to. */
bool
server_process_ended(struct server_process *server, int *status);

/* Waits for its end, for so many milliseconds; then kills it. */
void
server_process_end(struct server_process *server, unsigned int patience);

/* Frees what is left of one that has ended. */
void
server_process_fini(struct server_process *server);

#endif
