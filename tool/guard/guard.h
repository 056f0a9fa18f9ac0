/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process in the background that an attached device has: it attaches the device, starts its
 * server again when that dies, and ends when the device is detached.  It keeps nothing that isn't
 * the kernel's or the server's to tell.
 *
 * The other verbs talk to it by tool/guard/guard_link.h.  It ignores SIGTERM and SIGINT: the device
 * that depends on it can't be seen by who sends them.
 */
#ifndef TOOL_GUARD_GUARD_H
#define TOOL_GUARD_GUARD_H

#include "tool/guard/guard_plan.h"

/*
 * Attaches a device; when this returns it can be used, and *name is "nbd0" (caller frees).  On
 * failure nothing is left, and the error is of tool/failure.h: ETXTBSY, another program has the
 * image locked.
 */
bool
guard_start(const struct guard_plan *plan, char **name, GError **error);

/*
 * Gives a device whose guard was killed another one, with another server, which serves it when this
 * returns.  On failure the device is as it was, or, as the error says, has a guard that goes on
 * trying.
 */
bool
guard_adopt(const char *name, GError **error);

#endif
