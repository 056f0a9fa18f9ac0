/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a device's data comes from, and the connections to it that the kernel gets: a server
 * process of our own for an image, or the server that an NBD URI names.
 */
#ifndef TOOL_GUARD_UPSTREAM_H
#define TOOL_GUARD_UPSTREAM_H

#include "tool/guard/guard_plan.h"
#include "tool/server/upstream_connection.h"
#include "tool/server/server_process.h"

#include <glib.h>
#include <stdbool.h>

struct upstream {
	const struct upstream_plan *plan;
	char *place; /* the plan's, until the image is changed */
	int image; /* keeps open the image that `place` led to when a server was first started; -1:
		      none yet */
	const char *direct_io; /* the same */
	bool read_only;        /* whatever the plan's options say */
	bool served;           /* once; a later user of the image must not prevent a restart */
	bool renamed;          /* `place` is no longer the image's name, and that was logged */
	char *control;         /* path of the server's control socket; NULL if remote */
	struct server_process server; /* if not remote */
	struct upstream_connection
		*connections; /* as many as planned; lost if .fd is -1 and .unseen is false */
	GString *refusal;     /* errors that the server logged while it started; NULL: it runs */
};

/* `control` is taken over. */
void
upstream_init(struct upstream *upstream, const struct upstream_plan *plan, char *control);

/* Makes each connection that is missing, with a new server if it is ours: always for the same
 * image, even if that was renamed or removed.  An error has the server's own words, and is ETXTBSY
 * if another program has the image locked; no server is left running then. */
bool
upstream_open(struct upstream *upstream, GError **error);

/* For a trial of another image (upstream_open()) while the present one is still served: like
 * `upstream`, but read-only, and without a control socket. */
void
upstream_init_trial(struct upstream *trial, const struct upstream *upstream, const char *image);

/* Swaps the images, from the next servers on; `upstream` becomes read-only. */
void
upstream_swap_image(struct upstream *upstream, struct upstream *other);

/* Whether connection `i` of the planned ones is missing. */
bool
upstream_lacks(const struct upstream *upstream, unsigned int i);

/*
 * For a URI: the kernel has all connections from a guard that was killed, and only the kernel sees
 * how they end.  upstream_lose_unseen(): so many of the kernel's connections are dead; some of
 * these may be open here as well.
 */
void
upstream_set_unseen(struct upstream *upstream);
unsigned int
upstream_unseen(const struct upstream *upstream);
void
upstream_lose_unseen(struct upstream *upstream, unsigned int dead);

/* Passes our server's messages on to the log. */
void
upstream_pass_output(struct upstream *upstream);

/* Whether our server has ended, or a connection to a remote server; the .fd of each lost connection
 * is -1 then.  *why: a text that says how (caller frees).  *crashed: the server did not end just
 * because its connections had ended. */
bool
upstream_is_lost(struct upstream *upstream, bool *crashed, char **why);

/* TLS: how many connections have used up their keys, and in how many milliseconds another one may
 * have (-1: never). */
unsigned int
upstream_used_up(const struct upstream *upstream, int *next_ms);

/* Ends those; they are lost then. */
void
upstream_end_used_up(struct upstream *upstream);

/*
 * To be called when the kernel has the connections.  A single one to our own server is closed
 * here: if the kernel did not take it, the server sees it end.  Several, which the kernel is known
 * to have taken, stay open here, so that each that the kernel gives up is noticed.
 */
void
upstream_release(struct upstream *upstream);

/* Ends it on purpose: kills our server, which loses no data, since the kernel repeats unanswered
 * requests; or shuts down the connections to a remote server. */
void
upstream_break(struct upstream *upstream);

/* Undoes upstream_open(): closes the connections that are new (a flag for each), and ends our
 * server. */
void
upstream_drop(struct upstream *upstream, const bool *is_new);

/* Closes the connections, and ends our server, if one runs, within seconds. */
void
upstream_end(struct upstream *upstream);

/* The same, and frees everything. */
void
upstream_fini(struct upstream *upstream);

#endif
