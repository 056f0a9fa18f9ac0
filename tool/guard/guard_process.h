/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process that a guard is (tool/guard/guard.h), from its start to its end.
 */
#ifndef TOOL_GUARD_GUARD_PROCESS_H
#define TOOL_GUARD_GUARD_PROCESS_H

#include "tool/device/device.h"
#include "tool/guard/guard_plan.h"

/* Makes a guard of this process, which was just forked: nothing of the caller's is kept open, such
 * as the lock file of a script.  `report` is where tool/guard/guard_report.h writes. */
void
guard_process_init(int report);

/* Attaches a device and guards it until it is detached.  Returns an exit status. */
int
guard_process_run(const struct guard_plan *plan);

/* The same in the place of a guard that was killed. */
int
guard_process_run_adopted(const struct device *device);

#endif
