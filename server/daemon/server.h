/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server: starts its parts, handles what comes to the main thread, and shuts down in good
 * order.
 */
#ifndef SERVER_DAEMON_SERVER_H
#define SERVER_DAEMON_SERVER_H

/* The configuration is wrong, and a start is of no use until somebody changes it. */
#define SERVER_MISCONFIGURED 2

/* Returns the status of a process that ends with this result of its start: 0, or -errno. */
int
server_status_of(int r);

struct command_line;
struct server_config;

/* Looks for what the configuration names beside images: the user, and the files of TLS. Opens
 * nothing for writing. Returns 0, or -errno with *error a sentence (caller frees) or NULL. */
int
server_check(const struct server_config *config, char **error);

/* Serves until a signal ends the server. `config` comes from the command line `line`, which is
 * read again on SIGHUP. Returns the status of the process: EXIT_SUCCESS, EXIT_FAILURE, or
 * SERVER_MISCONFIGURED (the log says why). */
int
server_run(struct server_config *config, const struct command_line *line);

#endif
