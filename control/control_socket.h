/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket: a unix stream socket (mode 0600) on which an administrator asks for the
 * status and makes changes while clients are connected. A request is one line, its answer one line
 * of JSON; see control/control_request.h. The socket has threads of its own, so no request to an
 * image waits for it. No client of the socket waits for a slow one: several can be connected at the
 * same time, and each has a few seconds for a request and its answer. When all places are taken,
 * the client that has been silent for longest gives its place to one that waits. Changes, which may
 * take long, are carried out one after the other; the status is available meanwhile.
 */
#ifndef CONTROL_CONTROL_SOCKET_H
#define CONTROL_CONTROL_SOCKET_H

#include "control/control_request.h"

#include <stdbool.h>

struct control_socket;

/*
 * Binds and listens at once, so that the user sees errors. control_socket_start() starts the
 * threads, after any fork. Replaces a socket file on which no server listens, and touches nothing
 * else at `path`. Returns 0 with *socket, which the caller frees with control_socket_free(), or
 * -errno with *error (the caller frees it).
 */
int
control_socket_new(const char *path, control_handler handler, void *data,
		   struct control_socket **socket, char **error);

/* Starts the threads. Returns 0 or -errno. */
int
control_socket_start(struct control_socket *socket);

/* Starts the end without waiting for it: no client can connect or make requests any more. NULL is
 * allowed. */
void
control_socket_stop(struct control_socket *socket);

/* Returns whether the end is complete: the last change is over, and its client has got as much of
 * the answer as it takes without waiting. True for NULL. */
bool
control_socket_is_over(struct control_socket *socket);

/* Stops the threads, waits for the change in progress, removes the socket file unless another file
 * has replaced it, and frees all. NULL is allowed. */
void
control_socket_free(struct control_socket *socket);

#endif
