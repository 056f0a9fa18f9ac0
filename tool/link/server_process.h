/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that serves an image (tool/link/server_command.h): its messages for people, its events
 * (common/event.h), and the sockets to it.
 */
#ifndef TOOL_LINK_SERVER_PROCESS_H
#define TOOL_LINK_SERVER_PROCESS_H

#include "common/event.h"

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

/* Lines that a server writes. */
struct server_lines {
	int fd;          /* non-blocking; -1: there are no more */
	GString *unread; /* the beginning of an unfinished line */
};

struct server_process {
	pid_t pid;                  /* 0: none runs */
	struct server_lines output; /* its standard error */
	struct server_lines events; /* closed also after a line that is no event: what is missing
				       then is not known */
};

struct server_listener {
	/* Gets a line for people: the level is one of common/log.h; the text is without the
	 * server's name.  Nothing may depend on its words. */
	void (*line)(int level, const char *text, void *data);
	/* Gets an event, whose strings are valid only during the call. */
	void (*event)(const struct event *event, void *data);
	void *data;
};

void
server_process_init(struct server_process *server);

/*
 * Starts the program words[0] (a path), with the other words as its argv[].  It inherits the socket
 * as descriptor SERVER_SOCKET; the caller closes its own.  -1: none.  It writes its events to
 * SERVER_EVENTS.  `listening`: the socket is announced as systemd does it (sd_listen_fds(3)).  The
 * process gets a session of its own, so that no key of a terminal ends it.
 */
bool
server_process_start(struct server_process *server, char **words, int socket, bool listening,
		     GError **error);

/* Passes on all lines and events that the server has written so far. */
void
server_process_listen(struct server_process *server, const struct server_listener *listener);

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
