/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that are whole or not there, also after a power cut; and that only one process writes.
 */
#ifndef TOOL_BACKUP_DURABLE_H
#define TOOL_BACKUP_DURABLE_H

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

/* Locks `path`, whether or not it's there, by a file "PATH.lock" that is removed with the lock.
 * It's an error (EBUSY) if another process has the lock.  -1: an error. */
int
durable_lock(const char *path, GError **error);
/* The same for reading: where no file can be made, there may be no lock.  Sets *lock to it, or to
 * -1; then the caller must see for itself that the file doesn't change. */
bool
durable_lock_to_read(const char *path, int *lock, GError **error);
void
durable_unlock(const char *path, int lock);

/* Creates the file that is to become `path`, "PATH.part", to read and write, in place of one that
 * was left behind.  The caller has the lock, and closes the file; -1 with an error. */
int
durable_begin(const char *path, GError **error);

/* Gives the file, whose data is on the disk, its name, or removes it. */
bool
durable_end(const char *path, GError **error);
void
durable_cancel(const char *path);

/* Shares the files of a directory with other readers, until the descriptor is closed; waits for who
 * replaces them.  `alone`: to replace them; an error (EBUSY) if there are readers.  A file system
 * may have no such locks: then readers must see for themselves that files were replaced.  -1: an
 * error. */
int
durable_share(const char *directory, bool alone, GError **error);

/* Makes the names in a directory durable. */
bool
durable_sync_directory(const char *directory, GError **error);

/* Renames, and makes that durable. */
bool
durable_rename(const char *from, const char *to, GError **error);

/* Makes a directory that is there also after a power cut.  Returns false with errno. */
bool
durable_make_directory(const char *path);

/* Opens a regular file (common/regular_file.h): one that another user put into the directory of
 * backups may be anything.  -1 with an error; ENOENT: it isn't there. */
int
durable_open(const char *path, int flags, GError **error);

/* The text of such a file, which has fewer than `size` bytes; NULL with an error.  Caller frees
 * (g_free). */
char *
durable_read(const char *path, size_t size, GError **error);

/* Replaces the text of a file; the new one has that mode. */
bool
durable_write(const char *path, const char *text, mode_t mode, GError **error);

#endif
