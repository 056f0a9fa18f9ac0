/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process that starts the server and waits for it, for --fork and --run. Without these options
 * there is none.
 *
 *	launcher: launcher_start() - fork - waits - --fork: ends when the server is ready
 *	                               |         \- --run: runs the command when the server is
 *	                               |                   ready, and ends the server afterwards
 *	server:                        \- server_run() - launcher_tell_ready()
 *
 * The launcher opens no image, has no threads and enters no sandbox: the command is its child, and
 * inherits nothing of the server.
 */
#ifndef SERVER_DAEMON_LAUNCHER_H
#define SERVER_DAEMON_LAUNCHER_H

struct command_line;
struct server_config;

/*
 * Forks if the command line asks for that. With --run, and without an address, first adds a unix
 * socket to the configuration, and to what the command line makes of it later.
 *
 * Returns 0 in the server's process; 1 in the launcher, after all is over, with the process's
 * *status; or -errno with *error a sentence (the caller frees it).
 */
int
launcher_start(struct command_line *line, struct server_config *config, int *status, char **error);

/* The functions below are the server's, and do nothing without a launcher. */

/* Lets the server end if the launcher of --run dies. A change of the user would undo that. */
void
launcher_follow(void);

/* Clients can connect. With --fork, nothing is written to standard error from now on, unless
 * messages stay there. Returns 0, or -errno with *error a sentence: the launcher is gone. */
int
launcher_tell_ready(char **error);

#endif
