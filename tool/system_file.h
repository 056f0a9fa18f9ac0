/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of /sys and /proc, and the table in /etc: those of this machine, or of the recorded tree
 * that the environment variable NBDLOOP_SYSROOT names, for tests.
 */
#ifndef TOOL_SYSTEM_FILE_H
#define TOOL_SYSTEM_FILE_H

#include <glib.h>

/* What stands before all these paths: "", or the path of the recorded tree.  Borrowed. */
const char *
system_file_root(void);

/* The path ("/sys/block"), or the same below the recorded tree.  Caller frees (g_free). */
char *
system_file_path(const char *format, ...) G_GNUC_PRINTF(1, 2);

/* The text of such a file, without white space at its end.  Caller frees (g_free); NULL: it can't
 * be read. */
char *
system_file_read(const char *format, ...) G_GNUC_PRINTF(1, 2);

/* The same for a path of system_file_path(); errno tells why the file can't be read. */
char *
system_file_read_path(const char *path);

#endif
