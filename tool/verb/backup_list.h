/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop backup list: the backups of a target.
 */
#ifndef TOOL_VERB_BACKUP_LIST_H
#define TOOL_VERB_BACKUP_LIST_H

#include <glib.h>
#include <stdbool.h>

/* Prints the backups in a directory of deltas, or the backup that is a raw file. */
bool
backup_list(const char *target, bool json, GError **error);

#endif
