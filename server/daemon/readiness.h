/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Telling whoever started the server how far it is: systemd (sd_notify(3), without its library) and
 * the reader of
 * --notify-fd.
 */
#ifndef SERVER_DAEMON_READINESS_H
#define SERVER_DAEMON_READINESS_H

/* Remembers where systemd wants to be told, and forgets it in the environment.  `fd`: of
 * --notify-fd; 0: none. Returns 0, or -errno with *error a sentence (caller frees). */
int
readiness_init(unsigned int fd, char **error);

/* Clients can connect; again after reloading. */
void
readiness_ready(void);

/* The configuration is being read again. */
void
readiness_reloading(void);

/* The server ends. */
void
readiness_stopping(void);

#endif
