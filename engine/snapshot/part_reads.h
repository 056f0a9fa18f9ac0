/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Direct reads of several parts of a file at once, by a thread that waits for all of them: one
 * system call and one wait, where pread() needs them for each part.
 */
#ifndef ENGINE_SNAPSHOT_PART_READS_H
#define ENGINE_SNAPSHOT_PART_READS_H

#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most parts at once. */
#define PART_READS_MAX 16

struct part {
	void *buffer;
	size_t length;
	uint64_t offset;
	bool direct; /* it keeps to the alignment of direct I/O, else it is left out */
	bool read;   /* set by part_reads_run(): all of it */
};

/* Linux AIO's state, which is made once because it takes long to give it back. */
struct part_reads {
	aio_context_t context; /* 0: none */
	bool impossible;       /* this machine forbids Linux AIO, or has no more of it */
};

/* Reads what it can of the parts, from a file that is open for direct I/O. What fails is left to
 * the caller, who reads it in another way and learns why. Waits for the disk. One thread at a time.
 */
void
part_reads_run(struct part_reads *reads, int fd, struct part *parts, unsigned int count);

/* May wait for the kernel, for milliseconds. */
void
part_reads_fini(struct part_reads *reads);

#endif
