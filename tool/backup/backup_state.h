/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a backup's target is a copy of: a file of JSON beside it.  (A delta has that in its header.)
 */
#ifndef TOOL_BACKUP_BACKUP_STATE_H
#define TOOL_BACKUP_BACKUP_STATE_H

#include "tool/backup/delta_format.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct backup_state {
	char *source;  /* URI of the export */
	char *target;  /* URI; NULL: the file beside which it is */
	char *bitmap;  /* whose changes come next; NULL: none, increments are not possible */
	uint64_t size; /* of the export, bytes */
	bool complete; /* false: a backup is running, or was killed */
	uint8_t id[DELTA_ID_SIZE]; /* of the last backup */
	uint64_t seconds;          /* when it was begun, since 1970 */
	/* Of a file after the backup: others may have changed it. */
	int64_t modified; /* ns since 1970 */
	int64_t applying; /* inode of the file into which an increment is being written; 0: none */
};

#define BACKUP_STATE_CLEANUP __attribute__((cleanup(backup_state_fini)))

void
backup_state_fini(struct backup_state *state);

/* Fills `state`, which is empty.  ENOENT: there is no such file. */
bool
backup_state_read(struct backup_state *state, const char *path, GError **error);
bool
backup_state_write(const struct backup_state *state, const char *path, GError **error);

/* The same from and to text; the caller frees it (free). */
bool
backup_state_parse(struct backup_state *state, const char *text, GError **error);
char *
backup_state_text(const struct backup_state *state);

/* Notes how the file is now. */
void
backup_state_note_file(struct backup_state *state, const struct stat *st);
bool
backup_state_is_of_file(const struct backup_state *state, const struct stat *st);

/* A random one. */
void
backup_state_new_id(uint8_t id[DELTA_ID_SIZE]);

#endif
