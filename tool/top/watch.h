/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sources that nbdloop top watches: those that the user named, or all devices and servers of
 * this machine, which come and go.
 */
#ifndef TOOL_TOP_WATCH_H
#define TOOL_TOP_WATCH_H

#include "tool/top/watched.h"

#include <glib.h>
#include <stdbool.h>

struct watch {
	GPtrArray *sources;    /* struct watched * */
	struct search *search; /* for all servers that there are; NULL: the user has named them */
	GPtrArray *sockets;    /* of these: char *; NULL: not known yet */
	GPtrArray *of_devices; /* char *: the sockets of servers of devices, or NULL */
	GThreadPool *pool;
	int64_t searching; /* since when a search goes on: monotonic, microseconds; 0: none does */
	int event;         /* readable when an answer has come; the reader takes it away */
};

/* `names`: devices and control sockets, as the user wrote them; NULL after the last one.  None: all
 * that there are. False: *error is set: EINVAL, ENOENT or ENXIO, the first that is none. */
bool
watch_init(struct watch *watch, char **names, GError **error);

/* Threads that still wait for a server keep what they need. */
void
watch_fini(struct watch *watch);

/* Looks for sources, and asks each. */
void
watch_ask(struct watch *watch);

/* Takes the answers that have come.  Returns whether all have. */
bool
watch_take(struct watch *watch);

/* How many servers answer only other users. */
unsigned int
watch_denied(const struct watch *watch);

/* Whether the search for servers takes unusually long: what it has not found yet is missing. */
bool
watch_lacks_servers(const struct watch *watch);

#endif
