/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A read from an export, as a sign that its server, and the image that it serves, answer.
 */
#ifndef TOOL_SOURCE_EXPORT_READ_H
#define TOOL_SOURCE_EXPORT_READ_H

#include "tool/source/source_connection.h"

#include <glib.h>
#include <stdbool.h>

/*
 * Reads the first block, or what there is of it, from a new connection, and says goodbye.  Waits
 * until `end` (g_get_monotonic_time()).  ETIMEDOUT: there was no answer in time; EIO: the server
 * reports an error; EPROTO: it answers something else.
 */
bool
export_read_first(const struct source_connection *connection, gint64 end, GError **error);

#endif
