/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backing of an image: the regular file or block device that holds its bytes, opened
 * twice (through the page cache, and with direct I/O where that works), and its facts.
 * It knows nothing of windows, sector sizes or what the user asked for.
 */
#ifndef ENGINE_BACKING_BACKING_H
#define ENGINE_BACKING_BACKING_H

#include "engine/reason.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct backing {
	char *path;    /* as given; for messages */
	int fd;        /* through the page cache */
	int direct_fd; /* O_DIRECT; -1: not possible */
	bool writable;
	bool block_device;
	bool claimed;   /* fd has it for itself: engine/image/claim.h */
	int claim_fd;   /* does nothing but have it for itself; -1: nothing does, or fd */
	bool in_memory; /* a file of tmpfs or ramfs: no call waits for a disk */
	dev_t device;   /* st_dev of a file, st_rdev of a block device */
	ino_t inode;
	unsigned int block_size;  /* block device: its logical block size, bytes; file: 1 */
	unsigned int cache_block; /* file: what the page cache reads and writes back as a whole,
				     bytes, a power of 2 */
	unsigned int
		direct_align; /* direct I/O: offset and length alignment, bytes, a power of 2 */
	unsigned int memory_align;      /* direct I/O: memory alignment, bytes, a power of 2 */
	char direct_reason[REASON_MAX]; /* why direct_fd is -1 */
};

enum {
	BACKING_READ_ONLY = 1, /* don't try to open for writing */
	BACKING_BENEATH =
		2, /* `path` is one name in `dirfd`: no link may lead out of it, and it must be
		    * a regular file; anything else is refused without opening it */
};

/*
 * Opens `path` (relative to `dirfd`, AT_FDCWD allowed).  Opens read-only where writing isn't
 * permitted, as losetup does; see .writable.  Returns 0, or -errno with *error a sentence
 * that names the path (caller frees).
 */
int
backing_open(struct backing *backing, int dirfd, const char *path, unsigned int flags,
	     char **error);

void
backing_close(struct backing *backing);

/*
 * Opens the file behind .fd or .direct_fd once more, in the same way, for one thread: a system call
 * counts itself in what was opened, and threads that share that write the same cache line for each.
 * The caller closes it.  Returns -errno where there is no /proc, or this user may not open the file
 * any more.
 */
int
backing_reopen(int fd);

/* Whether BACKING_BENEATH would find a regular file under that name in `dirfd`. */
bool
backing_is_beneath(int dirfd, const char *name);

/* The present size in bytes, or -errno. */
int64_t
backing_size(const struct backing *backing);

/* The logical block size of the device that holds the bytes, 512 to 4096; 0: the file isn't on just
 * one device, or that isn't known. */
unsigned int
backing_device_block(const struct backing *backing);

/* Whether both are the same file or device. */
bool
backing_same(const struct backing *a, const struct backing *b);

#endif
