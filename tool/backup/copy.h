/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A copy from one end to another, with many requests in flight; or a comparison of the two.
 */
#ifndef TOOL_BACKUP_COPY_H
#define TOOL_BACKUP_COPY_H

#include "tool/backup/end.h"
#include "tool/backup/progress.h"

#include <glib.h>
#include <stdbool.h>

struct copy_options {
	struct end *source, *target;
	GArray *plan;
	struct progress *progress;
};

/* Copies the parts of the plan, and makes them durable.  After an error of these functions the ends
 * can only be freed. */
bool
copy_run(const char *step, const struct copy_options *options, GError **error);

/* Reads both ends, and fails if they differ in a part of the plan. */
bool
copy_compare(const struct copy_options *options, GError **error);

#endif
