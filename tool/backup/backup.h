/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backup of an export: into a raw file, another export, or a directory of deltas.
 */
#ifndef TOOL_BACKUP_BACKUP_H
#define TOOL_BACKUP_BACKUP_H

#include "tool/backup/end.h"
#include "tool/backup/progress.h"
#include "tool/backup/retention.h"

#include <glib.h>
#include <stdbool.h>

/* A source that is made for the backup when the target is known to be fit for it: a snapshot of an
 * image in use. */
struct backup_moment {
	/* Makes it.  Returns its URI, which the caller frees (g_free); NULL with an error. */
	char *(*make)(struct backup_moment *moment, GError **error);
	/* Whether the target, which is open, is another image than the one that is copied; that
	 * would get its old bytes back.  False with an error. */
	bool (*may_write)(struct backup_moment *moment, const struct end *target, GError **error);
	/* Removes it, if it was made, and checkpoints that no backup needs any more. `done`: the
	 * backup has ended well. Called while the target is locked: its next backup may begin right
	 * after that, and has a checkpoint, too. */
	void (*end)(struct backup_moment *moment, bool done);
	const char *checkpoint; /* that begins at the moment; NULL: none */
	/* Results; the owner frees them (g_free). */
	char *has;   /* the checkpoint that the target belongs to, or NULL */
	char *since; /* the same, if it is an increment's; or NULL */
	bool kept;   /* from now on, the target may belong to .checkpoint */
};

/* What is wanted.  Texts are borrowed. */
struct backup_job {
	const char *source; /* URI; with a moment: what the target's state calls the image */
	struct backup_moment *moment; /* NULL: the source is there already */
	const char *target;           /* a path or URI */
	bool incremental;             /* only what has changed since the target's checkpoint */
	bool or_full;                 /* incremental: all, if the target has no backup */
	bool verify;
	bool force;              /* the target may be the backup of another source, or none */
	const char *bitmap;      /* the target's checkpoint; NULL: none, or what the target says */
	const char *next_bitmap; /* incremental: the target's from then on; NULL: the same */
	const char *state;       /* path of the state of a target that is a URI; NULL: none */
	struct retention retention;        /* of a directory */
	unsigned int connections, seconds; /* see export_end.h */
	struct progress *progress;
};

/* What it has done; the caller frees it (g_free). */
struct backup_result {
	bool incremental;
	uint64_t zeroes; /* bytes that were told to be zeroes; progress has the data's */
	char *file;      /* a delta's path; or NULL */
	char *next;      /* the checkpoint that the target has now; or NULL */
};

/* The three targets. */
bool
backup_to_file(const struct backup_job *job, struct backup_result *result, GError **error);
bool
backup_to_export(const struct backup_job *job, struct backup_result *result, GError **error);
bool
backup_to_directory(const struct backup_job *job, struct backup_result *result, GError **error);

#endif
