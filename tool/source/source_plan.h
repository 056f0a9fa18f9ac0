/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan of a source (tool/source/source.h), made before its device is attached.
 */
#ifndef TOOL_SOURCE_SOURCE_PLAN_H
#define TOOL_SOURCE_SOURCE_PLAN_H

#include "tool/link/server_command.h"
#include "tool/source/source_tls.h"

#include <glib.h>
#include <stdbool.h>

struct source_plan {
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
	bool force;            /* even if the machine uses the image in another way */
	struct source_tls tls; /* if remote */
};

/* Frees the place, the server's options, and what TLS needs. */
static inline void
source_plan_fini(struct source_plan *plan)
{
	g_clear_pointer(&plan->place, g_free);
	g_clear_pointer(&plan->server_options, g_ptr_array_unref);
	source_tls_fini(&plan->tls);
}

#endif
