/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A delta file (delta_format.h), and as an end of a copy.
 */
#ifndef TOOL_BACKUP_DELTA_END_H
#define TOOL_BACKUP_DELTA_END_H

#include "tool/backup/delta_format.h"
#include "tool/backup/end.h"
#include "tool/backup/progress.h"

#include <glib.h>
#include <stdbool.h>

/* A target: writes the header, which it completes, into an empty file.  Takes over `fd`, open to
 * read and write.  sync() ends the file: nothing can be written after it.  The caller frees it
 * (end_clear), and keeps the header until then; NULL with an error. */
struct end *
delta_end_create(int fd, const char *path, struct delta_header *header, GError **error);

/* The file of such a target contains also the states of the `merged` backups after its own. */
void
delta_end_set_merged(struct end *end, uint32_t merged);

/* A source, whose pieces are parts of delta_plan(): the header is that of the file, and stays the
 * caller's. */
struct end *
delta_end_open(int fd, const char *path, const struct delta_header *header);

/* Reads the header of a file that is open. */
bool
delta_read_header(int fd, const char *path, struct delta_header *header, GError **error);

/* Reads the record at the end of a file that is open: only its type is known to be right. */
bool
delta_read_end(int fd, const char *path, const struct delta_header *header,
	       struct delta_record *record, GError **error);

/* The file's records; a full delta's plan also has zeroes for the rest of the image.  A file that
 * is not whole is an error; its data is checked when it is read.  Caller frees (g_array_unref). */
GArray *
delta_plan(int fd, const char *path, const struct delta_header *header, GError **error);

/* Whether the file has all its records; `data`: and all their data, which is read from the disk and
 * compared with the checksums.  `progress` counts it; or NULL.  Waits for the disk. */
bool
delta_is_whole(int fd, const char *path, const struct delta_header *header, bool data,
	       struct progress *progress, GError **error);

#endif
