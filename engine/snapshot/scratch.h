/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A scratch file: a file without a name, of which nothing is left when the process is gone. It is
 * sparse, and what was never written reads as zeroes.
 */
#ifndef ENGINE_SNAPSHOT_SCRATCH_H
#define ENGINE_SNAPSHOT_SCRATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scratch {
	int fd;
	char *directory; /* where it is, for messages */
	uint64_t most;   /* bytes that may be written; 0: no limit */
	_Atomic uint64_t written;
	pthread_mutex_t asking; /* guards the member below */
	int lost;               /* -errno of a failed write-back, or 0 */
};

/* Returns the directory for a scratch file of an image: `wanted`; or, if that is NULL, that of the
 * file `fd`, wherever its path leads; or, of a block device, /var/tmp: its node's directory has no
 * room. The caller frees it; NULL: no memory. */
char *
scratch_directory(const char *wanted, int fd, bool block_device);

/* Opens a file without a name in the directory, for reading and writing. Returns a descriptor, or
 * -errno with *error, a sentence (the caller frees it). */
int
scratch_open(const char *directory, char **error);

/* Makes a scratch file of `size` bytes, all zeroes. Returns 0, or -errno with *error (the caller
 * frees it); then there is nothing to free. */
int
scratch_init(struct scratch *scratch, const char *directory, uint64_t size, uint64_t most,
	     char **error);

/* Closes the file, and with that frees its space. May be called again. */
void
scratch_fini(struct scratch *scratch);

/* Writes all bytes. Any thread may call this, and may wait for the disk. Returns 0, -EDQUOT if that
 * would be more than .most, or -errno. */
int
scratch_write(struct scratch *scratch, const void *data, size_t length, uint64_t offset);

/* Reads all bytes, under the same rules. Returns 0 or -errno; also if the kernel failed to write
 * some data of the file back, which it may have dropped. */
int
scratch_read(struct scratch *scratch, void *data, size_t length, uint64_t offset);

/* Frees the space of the file at once, whose contents are then undefined. */
void
scratch_empty(const struct scratch *scratch);

#endif
