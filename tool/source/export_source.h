/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The source that is a remote export: which server of those that have it is in use.
 *
 * All connections of a device lead to one server.  When some have ended, others to the same server
 * take their place; when none is left, any server may follow, beginning with the one that was in
 * use, since perhaps only a cable was pulled out.  If the server answers no more while some
 * connections seem to be alive, these are ended first.
 */
#ifndef TOOL_SOURCE_EXPORT_SOURCE_H
#define TOOL_SOURCE_EXPORT_SOURCE_H

#include "tool/source/source_state.h"

extern const struct source_kind export_source_kind;

#endif
