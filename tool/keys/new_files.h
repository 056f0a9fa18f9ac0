/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that appear complete or not at all: each is written as a draft, in a directory that only
 * its owner can read, and gets its name when all are stored.
 */
#ifndef TOOL_KEYS_NEW_FILES_H
#define TOOL_KEYS_NEW_FILES_H

#include <glib.h>
#include <stdbool.h>
#include <sys/stat.h>

struct new_files {
	int lock;               /* a directory; -1: none */
	char *drafts;           /* a directory in it, or NULL */
	GPtrArray *all;         /* struct new_file */
	GPtrArray *directories; /* paths of those that were made for the files */
};

/* Waits until no other nbdloop makes files in this directory.  The caller calls new_files_end(),
 * after an error, too.  Signals that end the program wait until then. */
bool
new_files_begin(struct new_files *files, const char *directory, GError **error);

/* To be called in a child process before exec(): there, they do not wait. */
void
new_files_in_child(void *unused);

/* Makes a directory for some of them, unless it is there.  It goes again if they are not made. */
bool
new_files_add_directory(struct new_files *files, const char *path, mode_t mode, GError **error);

/* Makes a directory for them, unless it is there.  It gets the group that reads the files of the
 * directory around it, if there is one; else, only the user can enter. */
bool
new_files_make_directory(const char *path, GError **error);

/* Adds one, and returns the path under which the caller writes it; the file there keeps that name
 * until new_files_end().  `replaced`: the file of this path that it replaces, whose owner and
 * permissions it gets, without those of all users that `mode` has not; NULL: there must be none,
 * and it gets `mode`.  If `mode` is for a group, but not for all users, that is the directory's
 * group.  It gets nothing unless the directory is the user's, and lets in only this group. */
const char *
new_files_add(struct new_files *files, const char *path, mode_t mode, const struct stat *replaced);

/* Makes all of them, or none; but after an error of the disk, some may have replaced others. */
bool
new_files_make(struct new_files *files, GError **error);

/* Prints the path of each, on a line of its own, and warns of those that all users could read. */
void
new_files_print(const struct new_files *files);

void
new_files_end(struct new_files *files);

#endif
