/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files for tests, in $TMPDIR or the current directory.  The files have no name, so that nothing is
 * left of them however a test ends; scratch_path() names one for those who want to open it again.
 */
#ifndef TESTS_UNIT_SCRATCH_FILE_H
#define TESTS_UNIT_SCRATCH_FILE_H

#include <stdint.h>

/* Longest path that is given out, with its NUL. */
#define SCRATCH_PATH 512

/* A new file of so many bytes, all of them a hole.  The caller closes it. */
int
scratch_file(uint64_t size);

/* The same outside of a test, where nothing can be asserted: -1 (and errno) when it can't be made.
 */
int
scratch_try_file(uint64_t size);

/* One in memory, whose file system has no direct I/O (or no restrictions on it). */
int
scratch_memory_file(uint64_t size);

/* A path by which this process can open the file anew.  Returns path. */
const char *
scratch_path(int fd, char path[SCRATCH_PATH]);

/* A new empty directory in $TMPDIR or the current directory, and its end with all files in it.  For
 * unchecked fixtures: they run in the parent, however its tests end.  Aborts when it can't be made.
 */
void
scratch_directory_new(char path[SCRATCH_PATH]);
void
scratch_directory_remove(const char *path);

/* Why scratch files have no direct I/O, or NULL. */
const char *
scratch_no_direct_io(void);

/* Why they have no synchronous writes (RWF_DSYNC), or NULL. */
const char *
scratch_no_dsync(void);

/* Writes bytes that are all different enough to tell places apart. */
void
scratch_fill(int fd, uint64_t offset, uint64_t length);

#endif
