/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signals that end a command (SIGHUP, SIGINT, SIGPIPE, SIGTERM) are only noted, so that it can
 * remove first what it has made elsewhere. A second one ends it at once.
 */
#ifndef TOOL_BACKUP_INTERRUPTION_H
#define TOOL_BACKUP_INTERRUPTION_H

#include <glib.h>
#include <stdbool.h>

/* From now on they are noted. */
void
interruption_watch(void);

/* Whether one was seen. */
bool
interruption_seen(void);

/* False with an error (EINTR) if one was seen. */
bool
interruption_check(GError **error);

/* Ends this process by the signal that was seen, as whoever started it expects; returns if none
 * was. */
void
interruption_end(void);

#endif
