/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guard of a device that is swapped to, and what it starts: nothing of them may have to come back
 * from there.
 */
#ifndef TOOL_GUARD_GUARD_MEMORY_H
#define TOOL_GUARD_GUARD_MEMORY_H

#include <glib.h>
#include <stdbool.h>

/* Locks all of the guard into memory, or it could not start a server again.  What it starts
 * inherits its place with the out-of-memory killer, and the priority. */
bool
guard_memory_lock(GError **error);

#endif
