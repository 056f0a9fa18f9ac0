/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a guard (tool/guard/guard.h) knows, for the files that it is made of.
 */
#ifndef TOOL_GUARD_GUARD_STATE_H
#define TOOL_GUARD_GUARD_STATE_H

#include "tool/device/device.h"
#include "tool/guard/attachment.h"
#include "tool/guard/guard_link.h"
#include "tool/guard/guard_record.h"
#include "tool/guard/source.h"

struct guard {
	struct attachment attachment;
	struct source source;
	struct guard_link link;
	struct guard_record record;
	const struct guard_plan *plan;
	int signals; /* signalfd */
};

/* Writes down what another one would need to take its place. */
bool
guard_note(struct guard *guard, GError **error);

/* For a device that is swapped to: nothing of the guard may have to come back from there, or it
 * could not start a server again.  What it starts inherits the adjustment, and the priority. */
bool
guard_stay_in_memory(GError **error);

/*
 * Takes the place of a guard that was killed, of that device, whose server ends then, while
 * connections to somebody else's server stay as they are: guard_look_at_unseen() and
 * guard_restore() come next.  After an error all is as it was.  *plan and *progress, which are to
 * be empty, belong to the caller (guard_record_forget_plan()).
 */
bool
guard_take_over(struct guard *guard, const struct device *device, struct guard_plan *plan,
		struct guard_progress *progress, GError **error);

/* Finds out which connections of a URI's device are dead that only the kernel sees: they are lost
 * then (source_is_lost()).  Does nothing where there are none. */
void
guard_look_at_unseen(struct guard *guard);

/* Gives the device a server, or connections, in place of those that are gone.  EINVAL: the device
 * is being detached. */
bool
guard_restore(struct guard *guard, GError **error);

/* Logs how the server was lost; it will be started again. */
void
guard_tell_loss(const struct guard *guard, const char *why);

/* Carries out a request, if one has come.  There may be no server after it: source.server.pid is 0
 * then. */
void
guard_take_request(struct guard *guard);

#endif
