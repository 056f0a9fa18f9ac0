/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets that another program made and passes to this one: by systemd's protocol
 * (sd_listen_fds(3)), or as a number on the command line.
 */
#ifndef SERVER_DAEMON_ACTIVATION_H
#define SERVER_DAEMON_ACTIVATION_H

#include <stdbool.h>

/* The descriptor of the first that systemd passes; the others follow. */
#define ACTIVATION_FIRST 3

/* How many listening sockets were passed; forgets it in the environment, so that no child takes
 * them for its own. `needed`: none is an error.  A number, or -errno with *error a sentence (caller
 * frees). */
int
activation_take(bool needed, char **error);

/*
 * Whether the descriptor is a stream socket that is connected or, with `listening`, that listens;
 * makes it close on exec.  Returns 0, or -errno with *error a sentence (caller frees).
 */
int
activation_check(int fd, bool listening, char **error);

/* A descriptor's number, as text.  The same. */
int
activation_parse_fd(const char *text, int *fd, char **error);

#endif
