/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks of ranges of a file that belong to an open file (F_OFD_SETLK): several may share a range,
 * or one has it alone. The whole file's lock (flock()) is in file.c.
 */
#ifndef TESTS_SIMULATION_FILE_LOCKS_H
#define TESTS_SIMULATION_FILE_LOCKS_H

#include <fcntl.h>

struct file;

/* F_OFD_GETLK or F_OFD_SETLK of an open file, `owner`. Returns 0, or -EAGAIN: another one has a
 * lock there. */
long
file_locks_call(struct file *file, const void *owner, int command, struct flock *flock);

/* The owner's locks are gone. */
void
file_locks_drop(struct file *file, const void *owner);

#endif
