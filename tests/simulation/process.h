/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process: one life of the server. It has the product's static variables, which are as they were
 * at the program's start when a life begins, memory, descriptors and fibers.
 *
 *     process_start() -> the server's main() runs in the first fiber
 *                     -> it returns, or calls _exit(), or process_kill()
 *     killed          -> fibers in the kernel finish their call, with what it does to the disk
 *     over            -> memory and descriptors are dropped
 */
#ifndef TESTS_SIMULATION_PROCESS_H
#define TESTS_SIMULATION_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROCESS_FILES 256

struct description;
struct memory;
struct region;
struct stream_file;
struct fiber;

struct process {
	unsigned int number;
	bool killed, ended; /* by somebody, or by itself */
	bool well;          /* by the end of main(), which leaves nothing */
	int status;
	unsigned int in_kernel; /* fibers */
	struct fiber *main;
	int64_t stopped_until;
	struct description *files[PROCESS_FILES];
	struct memory *memory;
	struct region *regions;
	struct stream_file *stream_files;
	size_t allocated; /* bytes */
};

/* Notes the static variables; once. */
void
process_prepare(void);

/* Begins a life. Only one can run; those before may have calls in the kernel. */
struct process *
process_start(int (*entry)(int argc, char **argv), int argc, char **argv);

/* The process whose code runs; NULL: none. */
struct process *
process_self(void);

/* Ends the life without any warning. */
void
process_kill(struct process *process);

/* The same, also for calls in the kernel: the machine has lost its power. */
void
process_lose_power(struct process *process);

/* SIGSTOP: it does not run before that time, except for its fibers in the kernel. */
void
process_stop(struct process *process, int64_t until);

/* Whether it has no fiber left. */
bool
process_is_over(const struct process *process);

/* The number of the last one that was started. */
unsigned int
process_latest(void);

/* Whether a process before that one, which has ended, still writes, in the kernel: its files are
 * open, and locked. */
bool
process_haunts(unsigned int number);

/* Around a part of a call that can wait and that a kill does not end; `what` for the trace. An
 * event loop may not make such a call. */
void
kernel_enter(const char *what);
void
kernel_leave(void);

#endif
