/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For a server whose image is a disk of its own machine, above all a disk with swap space: when
 * memory is short, the kernel writes to that disk, and the server must execute these writes without
 * waiting for memory itself.
 */
#ifndef COMMON_RECLAIM_H
#define COMMON_RECLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Prepares the calling thread, and the processes and threads that it starts after that: their
 * allocations do not wait for I/O (PR_SET_IO_FLUSHER, Linux 5.6); they have the lowest real-time
 * priority, because real-time threads may use memory that the kernel reserves (CAP_SYS_NICE;
 * without it, the log has a warning); and the out-of-memory killer spares them. Needs
 * CAP_SYS_RESOURCE, so it must be called before the server drops privileges. Returns 0, or -errno
 * with *error, a sentence (the caller frees it).
 */
int
reclaim_serve(char **error);

/*
 * Locks the process's memory, also what is mapped later. Allocates `heap` bytes for malloc() at
 * once. Later threads have stacks of 256 KiB, and huge pages are off. Otherwise, a thread that
 * touches new memory could wait forever for memory that only its own work can free. A child process
 * does not inherit the lock.
 *
 * If `heap`, and the `later` bytes that the caller will allocate, are more than half of the
 * available memory, the machine could run out of memory: then fails with -ENOMEM and a message that
 * ends with `way_out`. With `force`, only warns: the server gets another server's memory. Needs
 * CAP_IPC_LOCK or a sufficient RLIMIT_MEMLOCK. Returns 0, or -errno with *error (caller frees).
 */
int
reclaim_lock_memory(size_t heap, uint64_t later, bool force, const char *way_out, char **error);

#endif
