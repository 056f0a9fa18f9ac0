/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan of a device, made before it is attached: where its data comes from, and how the kernel
 * attaches it.  The guard (tool/guard/guard.h) follows the plan.
 */
#ifndef TOOL_GUARD_GUARD_PLAN_H
#define TOOL_GUARD_GUARD_PLAN_H

#include "tool/link/server_command.h"
#include "tool/link/upstream_tls.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct upstream_plan {
	char *place; /* the image's absolute path, or an NBD URI */
	bool remote; /* it is a URI: no server of ours, no server options, no control socket */
	unsigned int connections; /* >= 1 */
	unsigned int silence; /* seconds until a remote server that answers nothing is given up; 0:
				 the kernel has a timeout, or the server is ours */
	enum server_kind server;   /* if not remote */
	GPtrArray *server_options; /* see tool/link/server_command.h: "--offset=512"; without
				      direct I/O */
	const char *direct_io;     /* "on", "off", "auto" */
	const char *iops_limit, *bandwidth_limit; /* static or interned; NULL: none */
	bool force;              /* even if the machine uses the image in another way */
	struct upstream_tls tls; /* if remote */
};

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
	struct upstream_plan upstream;
	struct attachment_plan attachment;
};

/* Frees the place, the server's options, and what TLS needs. */
static inline void
guard_plan_fini(struct guard_plan *plan)
{
	g_free(plan->upstream.place);
	g_clear_pointer(&plan->upstream.server_options, g_ptr_array_unref);
	plan->upstream.place = NULL;
	upstream_tls_fini(&plan->upstream.tls);
}

#endif
