/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What server.c and server_end.c share.
 */
#ifndef SERVER_DAEMON_SERVER_STATE_H
#define SERVER_DAEMON_SERVER_STATE_H

#include "server/config/server_config.h"
#include "server/daemon/acceptor.h"
#include "server/daemon/pid_file.h"
#include "server/daemon/user.h"
#include "server/exports/server_status.h"
#include "server/serve/worker.h"

#include <stdbool.h>

struct command_line;
struct control_socket;
struct exports;
struct listener;
struct pollfd;

enum poll_slot {
	POLL_SIGNAL,
	POLL_WAKE,
	POLL_LISTENER,
};

struct server {
	struct server_config *config;
	const struct command_line *line;
	struct exports *exports;
	struct listener *listeners;
	struct control_socket *control;
	struct status status;
	struct pid_file pid_file;
	struct user user;
	struct worker_config worker_config;
	struct worker *workers;
	unsigned int worker_count;
	unsigned int started; /* workers */
	unsigned int passed;  /* listening sockets */
	struct acceptor acceptor;
	struct pollfd *polled;
	unsigned int poll_count;
	int signals; /* signalfd */
	int wake;    /* eventfd: something has happened on another thread */
	bool reread; /* the configuration is to be read again, when no change is under way */
	bool ending;
	bool abort; /* a second signal: don't wait any longer */
};

/* Does what signals that have come ask for. */
void
server_take_signals(struct server *server);

/* Ends all that has been started, in good order, as far as those who use it let it, and frees it.
 * `status` is the process's, if it has to end here. */
void
server_end(struct server *server, int status);

#endif
