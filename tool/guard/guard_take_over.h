/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a guard takes the place of one that was killed: with what that has written down, and a server
 * of its own in place of the other's, since only the parent of a server sees how it ends.
 * Connections to somebody else's server stay; how they end, only the kernel sees.
 */
#ifndef TOOL_GUARD_GUARD_TAKE_OVER_H
#define TOOL_GUARD_GUARD_TAKE_OVER_H

#include "tool/guard/guard_state.h"

/*
 * Takes the place of a guard that was killed, of that device, whose server ends then, while
 * connections to somebody else's server stay as they are: guard_probe_unseen() and
 * guard_restore() come next.  After an error all is as it was.  *plan and *progress, which are to
 * be empty, belong to the caller (guard_plan_fini(), guard_progress_fini()).
 */
bool
guard_take_over(struct guard *guard, const struct device *device, struct guard_plan *plan,
		struct guard_progress *progress, GError **error);

/* Finds out which connections of a URI's device are dead that only the kernel sees: they are lost
 * then (upstream_is_lost()).  Does nothing where there are none. */
void
guard_probe_unseen(struct guard *guard);

#endif
