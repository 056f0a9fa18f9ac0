/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An export of an NBD server as an end of a copy: several connections by libnbd, with many requests
 * in flight.  A lost connection is made again, and its requests are sent again.
 */
#ifndef TOOL_BACKUP_EXPORT_END_H
#define TOOL_BACKUP_EXPORT_END_H

#include "tool/backup/end.h"
#include "tool/backup/export_options.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Connects.  The caller frees it (end_clear); NULL with an error: also if the server doesn't know
 * one of the bitmaps, or the export is too small, or is read-only and must not be. */
struct end *
export_end_open(const struct export_end_options *options, GError **error);

/* Bytes of the export. */
uint64_t
export_end_size(const struct end *end);

/* The process at the other end of a unix socket; 0: the server is not on this machine, or unknown.
 */
pid_t
export_end_server(const struct end *end);

/* Whether a client, as a server of ours names it in its status, is one of the end's connections.  A
 * server that sees another process ID or address, since one of the two is in a container or behind
 * address translation, names none of them. */
bool
export_end_is_client(const struct end *end, const char *client);

/* Adds to `plan` what has changed since the checkpoint or dirty bitmap: one of the options'
 * bitmaps. */
bool
export_end_changed(struct end *end, const char *bitmap, GArray *plan, GError **error);

/* Adds all parts of `wanted` to `plan`, each as data or zeroes; all is data, if the server doesn't
 * tell. */
bool
export_end_allocated(struct end *end, GArray *wanted, GArray *plan, GError **error);

#endif
