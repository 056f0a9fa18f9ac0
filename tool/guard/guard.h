/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The background process of an attached device: it attaches the device, restarts the server when
 * that dies, and ends when the device is detached.  Its record (tool/guard/guard_record.h) is all
 * that it stores.
 *
 * The other verbs talk to it through tool/guard/guard_link.h.  It ignores SIGTERM and SIGINT: their
 * sender cannot see the device that depends on it.
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
