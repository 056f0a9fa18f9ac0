/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A raw file that is a backup, with its state.  An increment is first a delta beside it, and is
 * then written into the file: if that is interrupted, the delta is there to do it again.
 *
 *	disk.img         the backup
 *	disk.img.state   what it is a copy of
 *	disk.img.lock    a backup or restore is running, or was killed
 *	disk.img.part    a backup that is being made, or was killed
 *	disk.img.redo    an increment that is being written into the backup
 */
#ifndef TOOL_BACKUP_RAW_BACKUP_H
#define TOOL_BACKUP_RAW_BACKUP_H

#include "tool/backup/backup_state.h"
#include "tool/backup/progress.h"

#include <glib.h>
#include <stdbool.h>
#include <sys/stat.h>

struct raw_backup {
	char *path; /* of the file; not a link to it */
	char *state_path;
	char *redo_path;
	int lock;
	int part;    /* the new file, empty at first; -1: there is none */
	bool exists; /* the file does, with the facts */
	struct stat st;
	bool has_state;
	struct backup_state state;
};

#define RAW_BACKUP_CLEANUP __attribute__((cleanup(raw_backup_close)))

/* Locks and reads it, whether or not there is a file, and ends an interrupted increment.  With
 * `to_read`, the directory may be one that can't be written, unless there is such an increment.
 * The caller closes it, also after an error; a new file that has not taken its place is removed
 * then. */
bool
raw_backup_open(struct raw_backup *raw, const char *path, bool to_read, struct progress *progress,
		GError **error);

/* Whether it is still what it was when it was opened, since without a lock it may have changed. */
bool
raw_backup_has_stayed(const struct raw_backup *raw, GError **error);
void
raw_backup_close(struct raw_backup *raw);

/* Makes the new file.  Returns a descriptor that the caller closes, another than raw->part; -1 with
 * an error. */
int
raw_backup_begin(struct raw_backup *raw, GError **error);

/* The new file, which is whole on the disk, becomes the backup, with this state. */
bool
raw_backup_replace(struct raw_backup *raw, struct backup_state *state, GError **error);

/* The new file, which is a whole delta on the disk, is written into the backup. */
bool
raw_backup_apply(struct raw_backup *raw, struct progress *progress, GError **error);

/* After a comparison that has found other bytes than the source's: no increment is possible any
 * more. */
void
raw_backup_distrust(struct raw_backup *raw);

/* Whether nobody has written to the file since its last backup; else an error. */
bool
raw_backup_is_unchanged(const struct raw_backup *raw, GError **error);

#endif
