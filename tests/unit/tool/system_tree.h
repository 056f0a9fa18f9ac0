/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A copy of a machine's /sys and /proc, as far as they concern nbd devices, in a directory of its
 * own: the recording tests/lib/system_tree.txt, with the changes of a test.
 */
#ifndef TESTS_UNIT_SYSTEM_TREE_H
#define TESTS_UNIT_SYSTEM_TREE_H

/* An unchecked fixture: the directory, which replaces this machine's (tool/system_file.h). */
void
tree_new(void);
void
tree_free(void);

/* A checked fixture, for each test: the recording without changes. */
void
tree_begin(void);

/* Makes a file with this text, or replaces it; `path` begins with "sys/", "proc/" or "etc/". */
void
tree_write(const char *path, const char *text);

/* A symbolic link, whose target needn't exist. */
void
tree_link(const char *path, const char *target);

/* Removes a file, which must be there. */
void
tree_remove(const char *path);

#endif
