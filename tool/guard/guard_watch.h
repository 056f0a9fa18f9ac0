/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guard's work while its device is attached: it waits for the end of the server or of a
 * connection, for requests of the other verbs and for signals; it restores the server, and carries
 * out the requests.
 */
#ifndef TOOL_GUARD_GUARD_WATCH_H
#define TOOL_GUARD_GUARD_WATCH_H

#include "tool/guard/guard_state.h"

/* Makes a newly attached device ready for use, and restores its server meanwhile. */
bool
guard_watch_settle(struct guard *guard, GError **error);

/* Tries to restore the server until that succeeds or the device is detached. */
void
guard_watch_restore(struct guard *guard);

/* Returns when the device is detached. */
void
guard_watch(struct guard *guard);

#endif
