/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of an source (tool/source/source.h) that is for a remote export: which server of
 * those that have it is in use.
 *
 * All connections of a device lead to one server.  When some have ended, others to the same server
 * take their place; when none is left, any server may follow, beginning with the one that was in
 * use, since perhaps only a cable was pulled out.  If the server answers no more while some
 * connections seem to be alive, these are ended first.
 */
#ifndef TOOL_SOURCE_SOURCE_REMOTE_H
#define TOOL_SOURCE_SOURCE_REMOTE_H

#include "tool/source/source_state.h"

/* As source_open(). */
bool
source_remote_open(struct source *source, GError **error);

/* As source_is_lost(). */
bool
source_remote_is_lost(struct source *source, bool *crashed, char **why);

/* The server with that URI is in use; NULL, or none that the plan names: the first. */
void
source_remote_use(struct source *source, const char *uri);

#endif
