/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a guard (tool/guard/guard.h), and the operations that all of its parts use.
 */
#ifndef TOOL_GUARD_GUARD_STATE_H
#define TOOL_GUARD_GUARD_STATE_H

#include "tool/guard/attachment.h"
#include "tool/guard/guard_link.h"
#include "tool/guard/guard_plan.h"
#include "tool/guard/guard_record.h"
#include "tool/guard/silence.h"
#include "tool/source/source.h"

struct guard {
	struct attachment attachment;
	struct source source;
	struct guard_link link;
	struct guard_record record;
	const struct guard_plan *plan;
	int signals; /* signalfd */
	int looking; /* where the result of a look at the other servers comes from; -1: none */
	struct silence silence;
	char *misfits; /* what it was (tool/source/other_servers.h) */
};

/* Records what another guard would need to take its place. */
bool
guard_write_record(struct guard *guard, GError **error);

/* The same; a failure is logged. */
void
guard_rewrite_record(struct guard *guard);

/* Begins to look whether the other servers of an attached device could take it over; what was known
 * of that is forgotten. */
void
guard_look_at_others(struct guard *guard);

/* Logs and records what that has found; to be called when guard->looking can be read. */
void
guard_take_look(struct guard *guard);

/* Starts a server, or makes connections, in place of those that are gone, and hands them over to
 * the kernel.  EINVAL: the device is being detached. */
bool
guard_restore(struct guard *guard, GError **error);

/* Log how the server was lost, before it is restarted, and that it is there again. */
void
guard_log_loss(const struct guard *guard, const char *why);
void
guard_log_return(const struct guard *guard);

/* For a device that is swapped to: nothing of the guard, or of what it starts, may have to come
 * back from there.  The server inherits the guard's place with the out-of-memory killer, and its
 * priority.
 */
bool
guard_lock_memory(GError **error);

#endif
