/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all kinds of sources (tool/source/source.h) have in common, the table of a kind, and a
 * source's connections one by one.
 */
#ifndef TOOL_SOURCE_SOURCE_STATE_H
#define TOOL_SOURCE_SOURCE_STATE_H

#include "tool/device/device.h"
#include "tool/device/image_file.h"
#include "tool/source/source_connection.h"
#include "tool/source/source_plan.h"

#include <glib.h>
#include <poll.h>
#include <stdbool.h>

struct source {
	const struct source_kind *kind;
	void *state; /* the kind's own */
	const struct source_plan *plan;
	char *place;           /* the plan's, until the image is changed */
	const char *direct_io; /* the same; so are the next two */
	const char *iops_limit, *bandwidth_limit;
	bool read_only; /* whatever the plan's options say */
	char *control;  /* path of our server's control socket; NULL: none */
	char *listener; /* path on which nbdkit listens at its start; NULL: none */
	struct source_connection
		*connections; /* as many as planned; lost if .fd is -1 and .unseen is false */
};

/* What a guard records of a source, so that another one can take its place; all is borrowed. */
struct source_facts {
	struct image_identity image; /* .device 0: there is no file */
	const char *ceph_fence; /* of the next server: see tool/source/source_ceph.h; or NULL */
	const char *server;     /* URI of the one in use, or the last one that was; or NULL */
	uint16_t flags;         /* of the export, when the device was attached; 0: unknown */
};

/* The most descriptors that .poll() lists. */
#define SOURCE_POLLED 3

/* NULL: there is nothing to do, or the answer is no. */
struct source_kind {
	const char *noun;    /* of what takes the place of a lost one: "server" */
	bool volatile_facts; /* they may be others with each new connection */
	void (*init)(struct source *source);
	/* Frees what .end() has left. */
	void (*fini)(struct source *source);
	/* As the functions of source.h. */
	bool (*open)(struct source *source, GError **error);
	bool (*is_lost)(struct source *source, bool *crashed, char **why);
	bool (*is_fenced)(const struct source *source);
	bool (*is_in_server)(const struct source *source);
	bool (*runs)(const struct source *source);
	void (*listen)(struct source *source);
	void (*release)(struct source *source);
	void (*kill)(struct source *source);
	void (*drop)(struct source *source);
	void (*end)(struct source *source);
	void (*note_facts)(const struct source *source, struct source_facts *facts);
	void (*take_facts)(struct source *source, const struct source_facts *facts);
	void (*note_device)(struct source *source, const struct device *device);
	int (*look_at_others)(const struct source *source);
	/* Lists what can be read when there is something to do, and returns the number. */
	unsigned int (*poll)(const struct source *source, struct pollfd polled[SOURCE_POLLED]);
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
