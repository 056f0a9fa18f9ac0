/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A copy of what a machine's /sys and /proc tell about its nbd devices, in a directory of its own:
 * the recording tests/lib/system_tree.txt, and what a test adds or takes away.
 */
#ifndef TESTS_UNIT_SYSTEM_TREE_H
#define TESTS_UNIT_SYSTEM_TREE_H

/* The tree's /sys and /proc. */
extern char tree_sys[], tree_proc[];

/* The directory: an unchecked fixture. */
void
tree_new(void);
void
tree_free(void);

/* The recording in it, as it was made: a checked fixture, for each test. */
void
tree_begin(void);

/* A file with this text, in place of what is there; `path` begins with "sys/", "proc/" or "etc/".
 */
void
tree_write(const char *path, const char *text);

/* A symbolic link, whose target needn't exist. */
void
tree_link(const char *path, const char *target);

/* Removes a file, which must be there. */
void
tree_remove(const char *path);

#endif
