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
	const char *source;                /* path of a directory of deltas, or of a raw backup */
	const char *target;                /* a path that is not there, or a URI */
	bool has_until;                    /* of a directory: */
	uint64_t until;                    /* the number of the last increment that is wanted */
	bool force;                        /* the target may be there, and is replaced */
	unsigned int connections, seconds; /* see export_end.h */
	struct progress *progress;
};

bool
restore_run(const struct restore_job *job, GError **error);

#endif
