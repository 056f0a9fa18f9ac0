/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets that the program that starts the server passes to it: listening ones by systemd's
 * protocol (sd_listen_fds(3)), connected ones by their number on the command line (--fd), or later,
 * over a socket that has its number there (--fd-from).
 */
#ifndef SERVER_DAEMON_ACTIVATION_H
#define SERVER_DAEMON_ACTIVATION_H

#include <stdbool.h>

/* The first descriptor that systemd passes; the others follow. */
#define ACTIVATION_FIRST 3

/* Takes the listening sockets that were passed, and removes them from the environment, so that no
 * child process takes them for its own. `needed`: none is an error. Returns their number, or
 * -errno with *error a sentence (caller frees). */
int
activation_take(bool needed, char **error);

/* Checks that each text is the number of a connected stream socket, and that none is given twice;
 * makes the sockets close on exec. `texts` ends with NULL, or is NULL. Returns 0, or -errno with
 * *error a sentence (caller frees). */
int
activation_check_fds(char *const *texts, char **error);

/* The same of one descriptor, which is not closed: a connected socket of that type. */
int
activation_check_fd(int fd, int type, char **error);

#endif
