/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file with the server's process ID, which exists as long as clients can connect.
 */
#ifndef SERVER_DAEMON_PID_FILE_H
#define SERVER_DAEMON_PID_FILE_H

#include <stdbool.h>

struct pid_file {
	int fd;             /* -1: none is wanted */
	const char *path;   /* borrowed */
	bool made, written; /* by this server */
};

/*
 * Opens or makes the file, before privileges are dropped. `path` NULL: none is wanted. If the
 * file exists, it must be a regular file, not a symbolic link, and hold a process ID or nothing;
 * otherwise it is left alone (-EEXIST or -ELOOP). Returns 0, or -errno with *error a sentence
 * (caller frees).
 */
int
pid_file_open(struct pid_file *file, const char *path, char **error);

/* Writes the process ID: clients can connect. Returns as pid_file_open(). */
int
pid_file_write(struct pid_file *file, char **error);

/* Removes the file, or empties it if it can't be removed. A file that another program has written
 * to or replaced is left alone. */
void
pid_file_close(struct pid_file *file);

#endif
