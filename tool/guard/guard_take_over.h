/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a guard takes the place of one that was killed: it reads the record, and replaces the server
 * with one of its own, since only its parent sees how a server ends.  Connections to a remote
 * server stay; only the kernel sees how they end.
 */
#ifndef TOOL_GUARD_GUARD_TAKE_OVER_H
#define TOOL_GUARD_GUARD_TAKE_OVER_H

#include "tool/guard/guard_state.h"

/*
 * Takes the place of the device's guard, which was killed, and ends its server; connections to a
 * remote server stay.  The caller goes on with guard_probe_unseen() and guard_restore().  After an
 * error the device is as it was.  *plan and *progress must be empty, and belong to the caller
 * (guard_plan_fini(), guard_progress_fini()).
 */
bool
guard_take_over(struct guard *guard, const struct device *device, struct guard_plan *plan,
		struct guard_progress *progress, GError **error);

/* For a device of a URI: finds the dead ones among the connections that only the kernel sees, and
 * counts them as lost (source_is_lost()). */
void
guard_probe_unseen(struct guard *guard);

#endif
