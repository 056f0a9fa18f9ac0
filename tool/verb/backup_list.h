/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop backup list: the backups of a target.
 */
#ifndef TOOL_VERB_BACKUP_LIST_H
#define TOOL_VERB_BACKUP_LIST_H

#include "tool/backup/progress.h"

#include <glib.h>
#include <stdbool.h>

/* Prints the backups in a directory of deltas, or the backup that is a raw file.  `verify`: reads
 * all their data (its progress), and fails if some cannot be restored; NULL: reads no data. */
bool
backup_list(const char *target, bool json, struct progress *verify, GError **error);

#endif
