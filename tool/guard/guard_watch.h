/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guard's work while its device is attached: it waits for the end of the server or of a
 * connection, for requests and for signals, and restores the server.
 */
#ifndef TOOL_GUARD_GUARD_WATCH_H
#define TOOL_GUARD_GUARD_WATCH_H

#include "tool/guard/guard_state.h"

/* Makes a device ready that has just been attached, and meanwhile looks after its server. */
bool
guard_watch_settle(struct guard *guard, GError **error);

/* Tries to have the device served again until it is, or is detached. */
void
guard_watch_restore(struct guard *guard);

/* Returns when the device is detached. */
void
guard_watch(struct guard *guard);

#endif
