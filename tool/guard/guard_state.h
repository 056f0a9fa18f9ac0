/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guard (tool/guard/guard.h) at work: what it holds, and what all of its parts do with that.
 */
#ifndef TOOL_GUARD_GUARD_STATE_H
#define TOOL_GUARD_GUARD_STATE_H

#include "tool/guard/attachment.h"
#include "tool/guard/guard_link.h"
#include "tool/guard/guard_plan.h"
#include "tool/guard/guard_record.h"
#include "tool/guard/upstream.h"

struct guard {
	struct attachment attachment;
	struct upstream upstream;
	struct guard_link link;
	struct guard_record record;
	const struct guard_plan *plan;
	int signals; /* signalfd */
};

/* Writes down what another one would need to take its place. */
bool
guard_write_record(struct guard *guard, GError **error);

/* Gives the device a server, or connections, in place of those that are gone.  EINVAL: the device
 * is being detached. */
bool
guard_restore(struct guard *guard, GError **error);

/* Logs how the server was lost; it will be started again. */
void
guard_log_loss(const struct guard *guard, const char *why);

#endif
