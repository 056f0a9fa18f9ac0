/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control socket: a unix stream socket (mode 0600) on which an administrator asks for the
 * status and changes what can change while clients are connected.  A request is one line, its
 * answer one line of JSON; see control/control_request.h for the requests.  It has threads of its
 * own: no request to an image ever waits for it, nor does one of its clients for another that is
 * slow (several are connected at a time, and each gets a few seconds for a request and its answer).
 * Changes, which may take long, are carried out one after the other; who asks for the status
 * meanwhile gets it.
 */
#ifndef CONTROL_CONTROL_SOCKET_H
#define CONTROL_CONTROL_SOCKET_H

#include "control/control_request.h"

#include <stdbool.h>

struct control_socket;

/*
 * Binds and listens at once, so that the user sees the error; the thread starts with
 * control_socket_start(), after any fork.  A socket file that nobody listens on is replaced;
 * anything else at `path` is left alone.  Returns 0 or -errno with *error set (caller frees).
 */
int
control_socket_new(const char *path, control_handler handler, void *data,
		   struct control_socket **socket, char **error);

/* Returns 0 or -errno. */
int
control_socket_start(struct control_socket *socket);

/* Begins the end, without waiting for it: nobody can connect any more, nor ask for anything. NULL
 * is fine. */
void
control_socket_stop(struct control_socket *socket);

/* After that: whether the last change is over, too, and its client answered as far as it takes
 * that. NULL is. */
bool
control_socket_is_over(struct control_socket *socket);

/* Stops it if it runs and waits for the change that is under way; removes the socket file if it is
 * still ours, frees. NULL is fine. */
void
control_socket_free(struct control_socket *socket);

#endif
