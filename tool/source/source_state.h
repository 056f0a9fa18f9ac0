/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of an source (tool/source/source.h), and its connections one by one.
 */
#ifndef TOOL_SOURCE_SOURCE_STATE_H
#define TOOL_SOURCE_SOURCE_STATE_H

#include "tool/source/proxies.h"
#include "tool/link/server_process.h"
#include "tool/source/source_connection.h"
#include "tool/source/source_plan.h"

#include <glib.h>
#include <stdbool.h>

struct source {
	const struct source_plan *plan;
	char *place; /* the plan's, until the image is changed */
	int image; /* keeps open the image that `place` led to when a server was first started; -1:
		      none yet */
	const char *direct_io; /* the same; so are the next two */
	const char *iops_limit, *bandwidth_limit;
	bool read_only;   /* whatever the plan's options say */
	bool served;      /* once; a later user of the image must not prevent a restart */
	bool fenced;      /* our server, by another client of Ceph, which may have written since: a
			     next one would carry out what the kernel repeats on top of that */
	char *ceph_fence; /* of the next server: the last one, as a client of Ceph that had the
			     image's lock; NULL: none.  See tool/source/source_ceph.h */
	bool renamed;     /* `place` is no longer the image's name, and that was logged */
	char *control;    /* path of the server's control socket; NULL if remote */
	char *listener;   /* path on which nbdkit listens at its start; NULL if remote */
	struct server_process server; /* if not remote */
	int supply; /* over which that server gets connections, tool/link/server_supply.h; -1: it
		       has ended, or is another server */
	struct proxies proxies; /* if remote, and a proxy encrypts */
	struct source_connection
		*connections; /* as many as planned; lost if .fd is -1 and .unseen is false */
	/* If remote: the servers that the URI names, the one in use, or the last one that was, and
	 * what it told when the device was attached (0: it isn't yet). */
	GPtrArray *servers; /* URIs; NULL: not remote */
	unsigned int in_use;
	uint16_t flags;
	struct export_facts device; /* as the kernel knows it; .size 0: it isn't attached */
	GString *refusal; /* errors that the server logged while it started; NULL: it runs */
	/* What the present server has told since it was started. */
	bool ready;
	bool locked;   /* another program has a lock on the image */
	bool nameless; /* it has the image's lock, as an unknown client of Ceph */
};

/* Whether connection `i` of the planned ones is missing. */
bool
source_lacks(const struct source *source, unsigned int i);

/* The missing ones, to be made; their number is *count.  Caller frees the array. */
struct source_connection **
source_lacking(struct source *source, unsigned int *count);

/*
 * For a URI: the kernel has all connections from a guard that was killed, and only the kernel sees
 * how they end.  source_lose_unseen(): so many of the kernel's connections are dead; some of
 * these may be open here as well.
 */
void
source_set_unseen(struct source *source);
unsigned int
source_unseen(const struct source *source);
void
source_lose_unseen(struct source *source, unsigned int dead);

/* Closes the connections that have ended, and returns how many. */
unsigned int
source_close_ended(struct source *source);

/* Closes those that are open.  source_end_connections(): and ends them, though the kernel has
 * them too. */
void
source_close_connections(struct source *source);
void
source_end_connections(struct source *source);

#endif
