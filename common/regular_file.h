/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that somebody else may have put where we look for one of ours: opening a FIFO would wait
 * for its other end for ever, and opening a device may do anything.
 */
#ifndef COMMON_REGULAR_FILE_H
#define COMMON_REGULAR_FILE_H

/* Opens a regular file, close-on-exec, and never waits for another process.  `flags`: those of
 * open(2), without O_CREAT. Returns a descriptor, or -errno; -EISDIR for a directory, and
 * -EMEDIUMTYPE for anything else that is not a regular file. */
int
regular_file_open(const char *path, int flags);

/* What an error of regular_file_open() means: strerror()'s text, or that of -EMEDIUMTYPE, for which
 * the C library has none that fits. Borrowed, as strerror()'s. */
const char *
regular_file_strerror(int err);

#endif
