/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which backups of a directory are kept.
 */
#ifndef TOOL_BACKUP_RETENTION_H
#define TOOL_BACKUP_RETENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A backup is kept if one of these rules wants it.  0: there is no such rule. */
struct retention {
	unsigned int last;   /* so many, the newest */
	unsigned int daily;  /* the newest of a day, for so many days that have backups */
	unsigned int weekly; /* the same for weeks, which begin on Monday */
};

/* Returns whether there is a rule; without one, all are kept. */
bool
retention_is_wanted(const struct retention *retention);

/* Sets keep[i] for the backup of seconds[i], which is since 1970; the oldest backup comes first.
 * The newest is always kept. */
void
retention_choose(const struct retention *retention, const uint64_t *seconds, size_t count,
		 bool *keep);

#endif
