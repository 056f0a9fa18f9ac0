/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files for tests, in $TMPDIR or the current directory.  The files have no name, so that nothing is
 * left of them however a test ends; scratch_path() has a path to open one again.
 */
#ifndef TESTS_UNIT_SCRATCH_FILE_H
#define TESTS_UNIT_SCRATCH_FILE_H

#include <stdint.h>

/* The longest path, with its NUL. */
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

/* Writes a path under which this process can open the file again.  Returns path. */
const char *
scratch_path(int fd, char path[SCRATCH_PATH]);

/* Makes an empty directory in $TMPDIR or the current directory, or aborts; and removes it with all
 * files in it.  For unchecked fixtures, which run in the parent however its tests end. */
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

/* How many pages of the file are in the page cache, or -1. */
int
scratch_cached_pages(int fd);

/* Writes the file back and drops it from the page cache.  Returns scratch_cached_pages(). */
int
scratch_drop_cache(int fd);

/* Waits until none of its pages is in the page cache; fails after ten seconds. */
void
scratch_await_no_cache(int fd);

/* Why the page cache can't be watched here, or NULL. */
const char *
scratch_no_view_of_cache(void);

/* Writes bytes that differ from place to place. */
void
scratch_fill(int fd, uint64_t offset, uint64_t length);

#endif
