/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The servers of a remote export that a device does not use now: whether they could take it over.
 */
#ifndef TOOL_SOURCE_OTHER_SERVERS_H
#define TOOL_SOURCE_OTHER_SERVERS_H

#include "tool/source/proxies.h"
#include "tool/source/source_state.h"

/* The state of a source that is a remote export. */
struct export_source {
	GPtrArray *servers;         /* URIs of those that have it */
	unsigned int in_use;        /* of these, or the last one that was */
	uint16_t flags;             /* that it told when the device was attached; 0: it isn't yet */
	struct export_facts device; /* as the kernel knows it; .size 0: it isn't attached */
	struct proxies proxies;     /* if they encrypt */
};

/* Has a thread look at each of them, for three seconds at most (and the name service's time).
 * Returns a descriptor that can be read when the result is there, or -1: there are no other
 * servers, or the thread can't be started, which is logged. The source's plan must stay as it is
 * until the process ends. */
int
other_servers_look(const struct source *source);

/* Returns the result, and closes the descriptor; does not wait when that can be read. The result
 * says what keeps their exports from taking the place of the device's (.device): a text without the
 * device's name, which the caller frees, or NULL. A server that isn't there is no fault: a cluster
 * manager may start it when it is needed. */
char *
other_servers_result(int fd);

#endif
