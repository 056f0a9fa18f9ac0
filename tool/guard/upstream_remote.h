/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of an upstream (tool/guard/upstream.h) that is for a remote export: which server of
 * those that have it is in use.
 *
 * All connections of a device lead to one server.  When some have ended, others to the same server
 * take their place; when none is left, any server may follow, beginning with the one that was in
 * use, since perhaps only a cable was pulled out.  If the server answers no more while some
 * connections seem to be alive, these are ended first.
 */
#ifndef TOOL_GUARD_UPSTREAM_REMOTE_H
#define TOOL_GUARD_UPSTREAM_REMOTE_H

#include "tool/guard/upstream_state.h"

/* As upstream_open(). */
bool
upstream_remote_open(struct upstream *upstream, GError **error);

/* As upstream_is_lost(). */
bool
upstream_remote_is_lost(struct upstream *upstream, bool *crashed, char **why);

/* The server with that URI is in use; NULL, or none that the plan names: the first. */
void
upstream_remote_use(struct upstream *upstream, const char *uri);

#endif
