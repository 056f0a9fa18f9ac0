/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan of a device, made before it is attached: where its data comes from, and how the kernel
 * attaches it.  The guard (tool/guard/guard.h) follows the plan.
 */
#ifndef TOOL_GUARD_GUARD_PLAN_H
#define TOOL_GUARD_GUARD_PLAN_H

#include "tool/source/source_plan.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct attachment_plan {
	int index; /* of the device, or NBD_DRIVER_ANY */
	bool read_only;
	bool partscan;           /* scan once more; an error if the driver allows no partitions */
	unsigned int block_size; /* bytes; 0: what the server wants */
	uint64_t offset, sizelimit; /* of the image, bytes; 0: none.  For messages only: the server
				       applies them */
	unsigned int timeout;       /* as in tool/device/nbd_driver.h */
	unsigned int dead_timeout;  /* the same */
	bool swap; /* for swap space: guard and server must work when memory is short */
};

struct guard_plan {
	struct source_plan source;
	struct attachment_plan attachment;
};

/* Frees the place, the server's options, and what TLS needs. */
static inline void
guard_plan_fini(struct guard_plan *plan)
{
	source_plan_fini(&plan->source);
}

#endif
