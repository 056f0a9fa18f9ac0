/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Linux AIO: its system calls. What Linux does without waiting gets a fiber of the kernel's; the
 * rest is carried out in io_submit(), which waits for it.
 */
#ifndef TESTS_SIMULATION_KAIO_H
#define TESTS_SIMULATION_KAIO_H

#include <stdarg.h>
#include <stdbool.h>

struct process;

struct kaio_mood {
	bool absent;         /* there is no AIO */
	bool no_try;         /* the file system knows no RWF_NOWAIT */
	bool late_no_try;    /* it says so only in the event, as ext4 does for writes */
	unsigned int refuse; /* once in so many iocbs, there is no room; 0: never */
};

extern struct kaio_mood kaio_mood;

/* One of the system calls, with its arguments. Returns its result, or -errno. */
long
kaio_call(long number, va_list arguments);

/* Drops the process's contexts, of which a server that ended well has none. */
void
kaio_drop(struct process *process);

#endif
