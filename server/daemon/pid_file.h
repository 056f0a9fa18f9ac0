/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file with the server's process ID: it is there as long as clients can connect.
 */
#ifndef SERVER_DAEMON_PID_FILE_H
#define SERVER_DAEMON_PID_FILE_H

#include <stdbool.h>

struct pid_file {
	int fd;             /* -1: none is wanted */
	const char *path;   /* borrowed */
	bool made, written; /* by us: what another server wrote is its own */
};

/*
 * Before privileges are dropped. `path` NULL: none is wanted.  A file that is there already must be
 * a regular one, not reached by a symbolic link, and hold a process ID or nothing: -EEXIST or
 * -ELOOP otherwise, and it is left alone. Returns 0, or -errno with *error a sentence (caller
 * frees), as the next.
 */
int
pid_file_open(struct pid_file *file, const char *path, char **error);

/* When clients can connect. */
int
pid_file_write(struct pid_file *file, char **error);

/* Removes the file, or empties it where it may not be removed; only if it holds what we have
 * written, or nothing and we have made it. */
void
pid_file_close(struct pid_file *file);

#endif
