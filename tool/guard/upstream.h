/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a device's data comes from, and the connections to it that the kernel gets: a server
 * process of our own for an image, or the server that an NBD URI names.
 */
#ifndef TOOL_GUARD_UPSTREAM_H
#define TOOL_GUARD_UPSTREAM_H

#include "tool/guard/upstream_state.h"

#include <stdbool.h>

/* `control` is taken over. */
void
upstream_init(struct upstream *upstream, const struct upstream_plan *plan, char *control);

/*
 * Makes each connection that is missing.  A server of our own that runs gets all connections anew,
 * after the requests of the last ones; otherwise one is started: always for the same image, even if
 * that was renamed or removed.  An error has the server's own words, and is ETXTBSY if another
 * program has the image locked; no server is left running then.
 */
bool
upstream_open(struct upstream *upstream, GError **error);

/* For a trial of another image (upstream_open()) while the present one is still served: like
 * `upstream`, but read-only, and without a control socket. */
void
upstream_init_trial(struct upstream *trial, const struct upstream *upstream, const char *image);

/* Swaps the images, from the next servers on; `upstream` becomes read-only. */
void
upstream_swap_image(struct upstream *upstream, struct upstream *other);

/* Passes our server's messages on to the log. */
void
upstream_pass_output(struct upstream *upstream);

/* Whether our server has ended, or all of its connections have, or a connection to a remote server;
 * the .fd of each lost connection is -1 then.  *why: a text that says how (caller frees).
 * *crashed: the server did not end just because its connections had ended. */
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
