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
 * Locks the process's memory: the memory that is in use, and all that is mapped later. Allocates
 * `heap` bytes for malloc() at once. Threads that are started later have stacks of 256 KiB, and
 * huge pages are off. Without all this, a thread that touches new memory could wait forever for
 * memory that only its own work can free. A child process does not inherit the lock.
 *
 * The caller will allocate `later` more bytes. If these and the heap are more than half of the
 * available memory, the machine could run out of memory, so the function fails with -ENOMEM, and
 * its message ends with `way_out`, which says how to need less. With `force` there is only a
 * warning, for a server that replaces another one and gets its memory. Needs CAP_IPC_LOCK or a
 * sufficient RLIMIT_MEMLOCK. Returns 0, or -errno with *error, a sentence (the caller frees it).
 */
int
reclaim_lock_memory(size_t heap, uint64_t later, bool force, const char *way_out, char **error);

#endif
