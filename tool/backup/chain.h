/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A directory of deltas: a full backup, 000000.delta, and its increments, 000001.delta and so on.
 */
#ifndef TOOL_BACKUP_CHAIN_H
#define TOOL_BACKUP_CHAIN_H

#include "tool/backup/delta_format.h"

#include <glib.h>
#include <stdbool.h>

struct chain_link {
	char *path;
	struct delta_header header;
};

/* Its links, struct chain_link, in their order; none in an empty directory.  An error, if one is
 * missing, damaged, or belongs elsewhere.  Caller frees (g_ptr_array_unref). */
GPtrArray *
chain_read(const char *directory, GError **error);

/* The path of a link.  Caller frees (g_free). */
char *
chain_path(const char *directory, uint64_t number);

#endif
