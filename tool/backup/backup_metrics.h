/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file that tells Prometheus how the last backup went, and how old the last good one is: the
 * format of node_exporter's textfile collector.
 */
#ifndef TOOL_BACKUP_BACKUP_METRICS_H
#define TOOL_BACKUP_BACKUP_METRICS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct backup_metrics {
	const char *source, *target; /* as the user wrote them */
	uint64_t last_good;          /* when it was begun, seconds since 1970; 0: there is none */
	uint64_t begun, ended;       /* the last run, good or not; seconds since 1970 */
	bool failed;                 /* the last run */
	uint64_t data;               /* bytes that the last run has copied */
	bool has_count;
	uint64_t count; /* backups in the target */
};

/* Notes what the target says of its last good backup.  `state`: the path of its state, if it is
 * neither a file nor a directory; or NULL. */
void
backup_metrics_note_target(struct backup_metrics *metrics, const char *state);

/* Caller frees (g_free). */
char *
backup_metrics_text(const struct backup_metrics *metrics);

/* Replaces the file, which all users may read. */
bool
backup_metrics_write(const struct backup_metrics *metrics, const char *path, GError **error);

#endif
