/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tells systemd (sd_notify(3), without its library) and the reader of --notify-fd whether the
 * server is ready.
 */
#ifndef SERVER_DAEMON_READINESS_H
#define SERVER_DAEMON_READINESS_H

/* Takes systemd's socket from the environment.  `fd`: of --notify-fd; 0: none.  Returns 0, or
 * -errno with *error a sentence (caller frees). */
int
readiness_init(unsigned int fd, char **error);

/* Clients can connect, or the configuration has been read again. */
void
readiness_ready(void);

/* The configuration is being read again. */
void
readiness_reloading(void);

/* The server shuts down. */
void
readiness_stopping(void);

#endif
