/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan of a device, made before it is attached: where its data comes from, and what the kernel
 * is told about it.  A guard (tool/guard/guard.h) keeps to it.
 */
#ifndef TOOL_GUARD_GUARD_PLAN_H
#define TOOL_GUARD_GUARD_PLAN_H

#include "tool/server/server_command.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct upstream_plan {
	char *place; /* the image's absolute path, or an NBD URI */
	bool remote; /* it is a URI: there is no server of ours, and neither options nor a control
			socket */
	unsigned int connections;  /* >= 1 */
	enum server_kind server;   /* if not remote */
	GPtrArray *server_options; /* see tool/server/server_command.h: "--offset=512"; without
				      direct I/O */
	const char *direct_io;     /* "on", "off", "auto" */
	bool force;                /* whatever else uses the image */
};

struct attachment_plan {
	int index; /* of the device, or NBD_DRIVER_ANY */
	bool read_only;
	bool partscan;              /* an error if there can be no partitions */
	unsigned int block_size;    /* bytes; 0: what the server wants */
	uint64_t offset, sizelimit; /* of the image, bytes; 0: none.  For messages: the server has
				       applied them */
	unsigned int timeout;       /* as in tool/device/nbd_driver.h */
	unsigned int dead_timeout;  /* the same */
	bool swap; /* to be swapped to: memory that is needed to go on may be short */
};

struct guard_plan {
	struct upstream_plan upstream;
	struct attachment_plan attachment;
};

/* Frees the place and the server's options. */
void
guard_plan_fini(struct guard_plan *plan);

#endif
