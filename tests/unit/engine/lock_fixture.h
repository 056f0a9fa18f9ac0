/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file in memory, its locks, and other programs that lock it: nbdloopd and QEMU.  The other
 * program is a child process, because a lock of this process, under another description, would be
 * taken for the lock of a server that was killed.
 */
#ifndef TESTS_UNIT_ENGINE_LOCK_FIXTURE_H
#define TESTS_UNIT_ENGINE_LOCK_FIXTURE_H

#include "engine/backing/file/lock.h"

#include <stdbool.h>
#include <sys/types.h>

/* QEMU's permissions (include/block/block-common.h) as bits, and where raw files have their bytes
 * (block/file-posix.c). */
enum {
	READ = 1,
	WRITE = 2,
	UNCHANGED = 4,
	RESIZE = 8,
	ALL = 15
};
enum {
	HELD = 100,
	UNSHARED = 200
};

extern const struct lock_part whole;

/* For a checked fixture. */
void
lock_begin(void);
void
lock_end(void);

/* The file anew, under a description of its own.  The caller closes it. */
int
reopen(int flags);

/* The bytes, from `base` on, that other descriptions than this one have locked, as bits. */
unsigned int
locked_bytes(int fd, off_t base);

/* Exactly these bytes are locked. */
void
assert_locked(unsigned int held, unsigned int unshared);

/* Starts a process with QEMU's locks, for what it may do and what it lets others do; or one with
 * nbdloopd's.  Returns its id, for holder_end(). */
pid_t
holder_start(unsigned int may, unsigned int lets);
pid_t
server_start(const struct lock_part *part, enum lock_choice choice, bool writable);
void
holder_end(pid_t pid);

/* Another program that uses the image. */
struct pair_row {
	const char *other;
	unsigned int may, lets;
	/* Whether we can have the image meanwhile. */
	bool exclusive_writer, shared_writer, reader;
};

#define PAIR_ROWS 10
extern const struct pair_row pair_rows[PAIR_ROWS];

#endif
