/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The background process of an attached device: it attaches the device, restarts a server that
 * dies, and ends when the device is detached.  It stores only its record
 * (tool/guard/guard_record.h).
 *
 * The other verbs talk to it through tool/guard/guard_link.h.  It ignores SIGTERM and SIGINT: their
 * sender cannot see the device that depends on it.
 */
#ifndef TOOL_GUARD_GUARD_H
#define TOOL_GUARD_GUARD_H

#include "tool/guard/guard_plan.h"

/*
 * Attaches a device, which can be used when this returns; *name is "nbd0" (caller frees).  On
 * failure nothing is left behind, and the error is of tool/failure.h: ETXTBSY, another program has
 * the image locked.
 */
bool
guard_start(const struct guard_plan *plan, char **name, GError **error);

/*
 * Gives a device whose guard was killed a new guard with a new server, which serves it when this
 * returns.  On failure the device is as it was, or it has a guard that keeps trying; the error
 * says so.
 */
bool
guard_adopt(const char *name, GError **error);

#endif
