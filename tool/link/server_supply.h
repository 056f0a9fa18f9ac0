/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The socket over which a guard passes connections to its nbdloopd (--fd-from).  Such a server
 * outlives its connections: it completes their requests, tells that it is idle, and takes the next
 * connections.  It ends when it is idle and the guard has closed the socket.
 */
#ifndef TOOL_LINK_SERVER_SUPPLY_H
#define TOOL_LINK_SERVER_SUPPLY_H

#include <glib.h>
#include <stdbool.h>

/* The most connections that can be passed at once. */
#define SERVER_SUPPLY_MAX 253

/* Makes the socket: *theirs is for the server. */
bool
server_supply_make(int *ours, int *theirs, GError **error);

/* Makes so many connections, at most SERVER_SUPPLY_MAX, and passes the server its ends; ours[] are
 * those of this process.  After an error, there are none. */
bool
server_supply_pass(int supply, int *ours, unsigned int count, GError **error);

/* Whether the server has told, since the last call, that it is idle.  If it has closed its end,
 * *supply is closed, and -1. */
bool
server_supply_is_idle(int *supply);

#endif
