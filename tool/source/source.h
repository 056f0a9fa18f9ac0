/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a device's data comes from, and the connections to it that the kernel gets: a server
 * process of our own for an image, or the server that an NBD URI names.
 */
#ifndef TOOL_SOURCE_SOURCE_H
#define TOOL_SOURCE_SOURCE_H

#include "tool/source/source_state.h"

#include <stdbool.h>

/* `control` and `listener` are taken over. */
void
source_init(struct source *source, const struct source_plan *plan, char *control, char *listener);

/*
 * Makes each connection that is missing.  A server of our own that runs gets all connections anew,
 * after the requests of the last ones; otherwise one is started: always for the same image, even if
 * that was renamed or removed.  An error has the server's own words, and is ETXTBSY if another
 * program has the image locked; no server is left running then.
 */
bool
source_open(struct source *source, GError **error);

/* For a trial of another image (source_open()) while the present one is still served: like
 * `source`, but read-only, and without a control socket. */
void
source_init_trial(struct source *trial, const struct source *source, const char *image);

/* Passes our server's messages on to the log. */
void
source_pass_output(struct source *source);

/* Whether our server has ended, or all of its connections have, or a connection to a remote server;
 * the .fd of each lost connection is -1 then.  *why: a text that says how (caller frees).
 * *crashed: the server did not end just because its connections had ended. */
bool
source_is_lost(struct source *source, bool *crashed, char **why);

/* Whether no other server may follow: another client may have written since our server lost the
 * lock of an image in Ceph, and the next one would carry out what the kernel repeats on top of
 * that; or what was written was lost with our server. */
bool
source_is_fenced(const struct source *source);

/* Whether what is written lives in our server's process and ends with it: a temporary clone. */
bool
source_is_in_server(const struct source *source);

struct source_facts
source_facts_of(const struct source *source);

/* TLS: how many connections have used up their keys, and in how many milliseconds another one may
 * have (-1: never). */
unsigned int
source_used_up(const struct source *source, int *next_ms);

/* Ends those; they are lost then. */
void
source_end_used_up(struct source *source);

/*
 * To be called when the kernel has the connections.  A single one to our own server is closed
 * here: if the kernel did not take it, the server sees it end.  Several, which the kernel is known
 * to have taken, stay open here, so that each that the kernel gives up is noticed.
 */
void
source_release(struct source *source);

/* Ends it on purpose: kills our server, which loses no data, since the kernel repeats unanswered
 * requests; or shuts down the connections to a remote server. */
void
source_break(struct source *source);

/* Undoes source_open(): closes the connections that are new (a flag for each), and ends our
 * server. */
void
source_drop(struct source *source, const bool *is_new);

/* Closes the connections, and ends our server, if one runs, within seconds. */
void
source_end(struct source *source);

/* The same, and frees everything. */
void
source_fini(struct source *source);

#endif
