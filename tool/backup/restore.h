/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Restores an image from its backups.
 */
#ifndef TOOL_BACKUP_RESTORE_H
#define TOOL_BACKUP_RESTORE_H

#include "tool/backup/progress.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* What is wanted.  Texts are borrowed. */
struct restore_job {
	const char *source; /* path of a directory of deltas, or of a raw backup */
	const char *target; /* a path that is not there, or a URI */
	/* Of a directory: the last backup that is wanted, as the user wrote it; NULL: the last one
	 * that there is. */
	const char *until;
	bool until_date;                   /* it is a date, not the number of a backup */
	uint64_t until_number;             /* the number; or the date's last second, since 1970 */
	bool force;                        /* the target may be there, and is replaced */
	unsigned int connections, seconds; /* see export_end.h */
	struct progress *progress;
};

bool
restore_run(const struct restore_job *job, GError **error);

#endif
