/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Merges backups of a directory that are not kept any more into the next one that is.
 *
 *	number   0   1   2   3           0   1   2   3
 *	state    a   b   c   d    ->     c           d     b and c were merged into a's file
 *
 *  1. A new file becomes 000000.delta, with the changes of 0 to 2.  Its end says that it contains
 *     two more backups.  From then on, 000001.delta and 000002.delta are not needed.  All that they
 *     write, up to the last one, is what the state has already.
 *  2. Each of them, the oldest first, is replaced by a file without records.  Numbers, identities
 *     and checkpoints stay, so that the next increment follows, also one of a program that knows no
 *     merges.
 *
 * Each file is on the disk before it replaces another one.  A kill between two steps leaves what
 * restores the same states; the next merge carries on.
 */
#ifndef TOOL_BACKUP_MERGE_H
#define TOOL_BACKUP_MERGE_H

#include "tool/backup/progress.h"
#include "tool/backup/retention.h"

#include <glib.h>
#include <stdbool.h>

/* What is wanted.  Borrowed. */
struct merge_job {
	const char *directory;
	struct retention retention;
	bool verify; /* read what was written, before anything that it replaces goes */
	struct progress *progress;
};

/* The caller has locked the directory.  EBUSY: a restore is reading. */
bool
merge_run(const struct merge_job *job, GError **error);

/* The same, with the lock. */
bool
merge_directory(const struct merge_job *job, GError **error);

#endif
