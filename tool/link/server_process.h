/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that serves an image (tool/link/server_command.h), its messages, and the sockets to
 * it.
 */
#ifndef TOOL_LINK_SERVER_PROCESS_H
#define TOOL_LINK_SERVER_PROCESS_H

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

struct server_process {
	pid_t pid;       /* 0: none runs */
	int output;      /* its standard error, non-blocking; -1: none */
	GString *unread; /* the beginning of an unfinished line */
};

/* Gets a line of the server: the level is one of common/log.h; the text is without the server's
 * name. */
typedef void (*server_process_listener)(int level, const char *text, void *data);

void
server_process_init(struct server_process *server);

/*
 * Starts the program words[0] (a path), with the other words as its argv[].  It inherits the socket
 * as descriptor SERVER_SOCKET; the caller closes its own.  -1: none.  `listening`: announced as
 * systemd does it (sd_listen_fds(3)).  The process gets a session of its own, so that no key of a
 * terminal ends it.
 */
bool
server_process_start(struct server_process *server, char **words, int socket, bool listening,
		     GError **error);

/* Passes on all lines that the server has written so far. */
void
server_process_listen(struct server_process *server, server_process_listener listener, void *data);

/* Whether the server has ended, with *status from waitpid(); its last lines can still be read. */
bool
server_process_ended(struct server_process *server, int *status);

/* Waits for its end for so many milliseconds, then kills it. */
void
server_process_end(struct server_process *server, unsigned int patience);

/* Frees what is left of a server that has ended. */
void
server_process_fini(struct server_process *server);

/* ---- connections to a server that takes a listening socket */

/*
 * Makes `count` connections to the new socket *listener, which is for the server: ours[] are their
 * ends.  `name`: the socket's path, which no other process can reach before it is removed again.
 * After an error, the caller closes those that were made; the others are -1.
 */
bool
server_sockets_make(int *ours, int *listener, unsigned int count, const char *name, GError **error);

/* Closes those that are not -1, and sets them to -1. */
void
server_sockets_close(int *sockets, unsigned int count);

#endif
