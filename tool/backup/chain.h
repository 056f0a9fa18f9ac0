/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A directory of deltas: a full backup, 000000.delta, and its increments, 000001.delta and so on.
 *
 * Each number restores the state of one date, until its backup is merged into a later one
 * (merge.h): then the file with the lower number has the later state, and the files between, with
 * their numbers and identities, have no records any more.
 */
#ifndef TOOL_BACKUP_CHAIN_H
#define TOOL_BACKUP_CHAIN_H

#include "tool/backup/delta_format.h"

#include <glib.h>
#include <stdbool.h>

struct chain_link {
	char *path;
	struct delta_header header;
	/* What the file was when the header was read.  (Some file systems give it another inode
	 * each time.) */
	uint64_t size;    /* bytes */
	int64_t modified; /* ns since 1970 */

	/* Set by chain_read_ends(). */
	uint64_t records, data; /* in the file; bytes of data */
	uint64_t last;          /* number of the backup whose state it restores */
	bool merged;            /* an earlier link contains its state: restoring skips it */
};

/* Its links, struct chain_link, in their order; none in an empty directory.  An error, if one is
 * missing, damaged, or belongs elsewhere.  Caller frees (g_ptr_array_unref). */
GPtrArray *
chain_read(const char *directory, GError **error);

/* Reads the ends of the links that chain_read() has returned: which backups were merged, and into
 * which link.  An error, too, if a file was replaced since then. */
bool
chain_read_ends(GPtrArray *links, GError **error);

/* Removes the links that restoring skips. */
void
chain_remove_merged(GPtrArray *links);

/* Opens a link's file for reading; -1 with an error, also if it was replaced since chain_read(). */
int
chain_open(const struct chain_link *link, GError **error);

/* The path of a link.  Caller frees (g_free). */
char *
chain_path(const char *directory, uint64_t number);

#endif
