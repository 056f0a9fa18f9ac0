/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server: puts its parts together, waits for what the main thread has to do, and ends in good
 * order.
 */
#ifndef SERVER_DAEMON_SERVER_H
#define SERVER_DAEMON_SERVER_H

#include "server/config/server_config.h"

struct command_line;

/* Serves until it is told to end.  The configuration is that of the command line, which is read
 * again when it is told to. Returns 0, or -errno (said in the log). */
int
server_run(struct server_config *config, const struct command_line *line);

#endif
