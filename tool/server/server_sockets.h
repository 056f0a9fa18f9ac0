/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets between this process and a server that it is about to start: connected pairs, or
 * connections to one socket that listens.
 */
#ifndef TOOL_SERVER_SERVER_SOCKETS_H
#define TOOL_SERVER_SERVER_SOCKETS_H

#include <glib.h>
#include <stdbool.h>

/*
 * Makes `count` connections: ours[] are this process's ends, theirs[], of which *given are used,
 * are for the server.  `name`: the path of a socket that listens, which nobody else can find
 * before it is removed again; NULL: pairs.  After an error, those that were made are still to be
 * closed; the others are -1.
 */
bool
server_sockets_make(int *ours, int *theirs, unsigned int count, const char *name,
		    unsigned int *given, GError **error);

/* Closes those that are not -1, and sets them to that. */
void
server_sockets_close(int *sockets, unsigned int count);

#endif
