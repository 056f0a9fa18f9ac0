/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processes that encrypt between the kernel and a remote server (tool/link/proxy.h), for a
 * device with --tls=proxy.  They are children of its guard, and outlive it: then the device goes on
 * as with the kernel's TLS.  A proxy ends when its connections have ended; if it is killed, they
 * end, and the guard replaces them.
 */
#ifndef TOOL_SOURCE_PROXIES_H
#define TOOL_SOURCE_PROXIES_H

#include "tool/source/source_connection.h"

#include <glib.h>
#include <stdbool.h>

struct proxies {
	GArray *pids; /* of those that have not ended, as far as is known; NULL: none yet */
};

/*
 * Gives each connection with a TLS session to a proxy.  Its socket is then one that the kernel
 * uses in the clear.  As many proxies are started as there are connections, but no more than
 * processors.  On failure, all of these connections are closed.
 */
bool
proxies_start(struct proxies *proxies, struct source_connection *const *connections,
	      unsigned int count, const char *place, GError **error);

/* Logs which of them were killed. */
void
proxies_reap(struct proxies *proxies);

/* Waits until they have ended, whose connections were closed or shut down; within seconds. */
void
proxies_end(struct proxies *proxies);

#endif
