/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a device's data comes from, and the connections to it that the kernel is given: a server
 * process of our own for an image, or a server that an NBD URI names.
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
	char *place; /* as the plan, until it is changed */
	int image; /* holds the image that `place` was when a server was first started for it; else
		      -1 */
	const char *direct_io; /* the same */
	bool read_only;        /* whatever the plan's options say */
	bool served;   /* before; later users of the image must not keep a new server from it */
	bool renamed;  /* `place` is not the image's name any more, and that was told */
	char *control; /* path of the server's control socket; NULL if remote */
	struct server_process server; /* if not remote */
	struct upstream_connection
		*connections; /* as many as planned; .fd -1, and not .unseen: lost */
	GString *refusal; /* what the server has told as an error while it started; NULL: it runs */
};

/* `control` is taken over. */
void
upstream_init(struct upstream *upstream, const struct upstream_plan *plan, char *control);

/* Makes each connection that isn't there, with a new server if it is ours: for the same image as at
 * first, even if that has another name now, or none.  Errors are in the server's own words, ETXTBSY
 * if another program has the image locked; then nothing of it is left running. */
bool
upstream_open(struct upstream *upstream, GError **error);

/* For trying another image (upstream_open()) while the present one goes on being served: as
 * `upstream`, but read-only, and without a control socket. */
void
upstream_init_trial(struct upstream *trial, const struct upstream *upstream, const char *image);

/* From the next server on, each has the other's image; `upstream` is read-only. */
void
upstream_swap_image(struct upstream *upstream, struct upstream *other);

/* Whether a connection, of as many as planned, is to be made. */
bool
upstream_lacks(const struct upstream *upstream, unsigned int i);

/*
 * Of a URI: the kernel has all connections from a guard that was killed, and only the kernel sees
 * how they end. upstream_lose_unseen(): so many of all connections that the kernel has are dead,
 * some of which may be seen here as well.
 */
void
upstream_set_unseen(struct upstream *upstream);
unsigned int
upstream_unseen(const struct upstream *upstream);
void
upstream_lose_unseen(struct upstream *upstream, unsigned int dead);

/* Passes what our server has said on to the log. */
void
upstream_pass_output(struct upstream *upstream);

/* Whether our server has ended, or one of a remote server's connections; what is lost is -1 then.
 * *why is a text that says how (caller frees); *crashed: not by itself, because its connections had
 * ended. */
bool
upstream_is_lost(struct upstream *upstream, bool *crashed, char **why);

/*
 * Tells that the kernel has the connections.  One alone to our own server is no longer open here
 * then: should the kernel not have taken it, the server sees it end.  Of several, which the kernel
 * is known to have taken, each that it gives up is seen.
 */
void
upstream_release(struct upstream *upstream);

/* Makes it lost on purpose: kills our server, which loses nothing, since the kernel sends again
 * what was not answered; or ends the connections to somebody else's. */
void
upstream_break(struct upstream *upstream);

/* Takes back what upstream_open() has made: those connections that are new (a flag for each), and
 * our server. */
void
upstream_drop(struct upstream *upstream, const bool *is_new);

/* Ends our server, if one runs, within a moment, or the connections to somebody else's. */
void
upstream_end(struct upstream *upstream);

/* The same, and frees all. */
void
upstream_fini(struct upstream *upstream);

#endif
