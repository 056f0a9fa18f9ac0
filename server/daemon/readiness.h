/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tells systemd (sd_notify(3), without its library) what the server does.
 */
#ifndef SERVER_DAEMON_READINESS_H
#define SERVER_DAEMON_READINESS_H

#include <stdbool.h>
#include <stdint.h>

/* Takes systemd's socket and its watchdog from the environment. Returns 0, or -errno with *error a
 * sentence (caller frees). */
int
readiness_init(char **error);

/* Returns whether systemd wants to be told. Then it waits at most a second for each of the
 * functions below to be taken; if it takes nothing, the log says so. */
bool
readiness_wanted(void);

/* Microseconds in which systemd wants readiness_alive(), from readiness_ready() on; 0: it does not.
 */
uint64_t
readiness_watchdog(void);

/* The server opens the export of that name; that may take long. */
void
readiness_opening(const char *name);

/* Clients can connect, or the configuration has been read again. */
void
readiness_ready(void);

/* How many exports are served, by so many threads: shown by systemctl. */
void
readiness_serving(unsigned int exports, unsigned int threads);

/* The configuration was not read again, and why: shown by systemctl. Any thread, and the command of
 * ExecReload= that has found the mistake. */
void
readiness_reload_failed(const char *why);

/* All event loops turn. Any thread. */
void
readiness_alive(void);

/* The configuration is being read again. */
void
readiness_reloading(void);

/* The server shuts down; clients and changes get `seconds` for that. */
void
readiness_stopping(unsigned int seconds);

#endif
