/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open files, and the calls on them. A transfer is carried out sector by sector, and others may run
 * between two of them. It can be slow, short, interrupted or fail, as the disk's mood says.
 */
#ifndef TESTS_SIMULATION_FILE_H
#define TESTS_SIMULATION_FILE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct description;

/* How likely faults are: once in so many calls; 0: never. */
struct disk_mood {
	unsigned int eio, enospc, eintr, short_one, writeback, slow, sticky;
	unsigned int direct_align; /* what direct I/O needs, in bytes; 0: it is impossible */
	int64_t stuck_until;       /* no request is complete before */
	int64_t unstuck_at;        /* when the last one that got stuck goes on, or went on */
};

extern struct disk_mood disk_mood;

/* Whether a fault has been told to the server since the last call. */
bool
disk_mood_struck(void);

/* Returns whether a fault happens that the server is told of, once in so many times. */
bool
disk_strikes(unsigned int once_in);

/* openat2() in the only directory. */
long
file_open_beneath(va_list arguments);

/* statx() for the alignment of direct I/O, whose structure older C libraries do not know: its last
 * two numbers here. */
long
file_tell_align(va_list arguments);

/* Calls on an open file: they take time. Each returns the result, or -errno. */
long
file_read(struct description *description, void *bytes, size_t length, uint64_t offset);
long
file_write(struct description *description, const void *bytes, size_t length, uint64_t offset,
	   int flags);
long
file_sync(struct description *description, const char *what);
long
file_allocate(struct description *description, int mode, uint64_t offset, uint64_t length);

#endif
