/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server whose image is a disk of its own machine, above all one with swap space on it: when
 * memory is short, the kernel writes to that disk, and the server must be able to carry this out
 * without waiting for memory itself.
 */
#ifndef COMMON_RECLAIM_H
#define COMMON_RECLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Declares the calling thread, and the processes and threads that it starts from now on, a part of
 * the way on which memory is freed (PR_SET_IO_FLUSHER, Linux 5.6: what they allocate doesn't wait
 * for I/O), gives them the lowest real-time priority (CAP_SYS_NICE; without it, the log has a
 * warning: real-time threads may use memory that is kept back from others), and keeps the
 * out-of-memory killer away.  Needs CAP_SYS_RESOURCE: call it before privileges are dropped.
 * Returns 0, or -errno with *error a sentence (caller frees).
 */
int
reclaim_serve(char **error);

/*
 * Locks the process's memory: what of it is in use, and all that comes later, as soon as it comes;
 * `heap` bytes for malloc() come at once.  Threads that are started later have stacks of 256 KiB,
 * and there are no huge pages.  Without that, a thread that touches new memory can wait for ever
 * for what only it can free.  A child process doesn't inherit it.
 *
 * `later` bytes are what the caller is going to take when it is locked.  That and the heap may be
 * half of what is available at most, since a machine without any memory left dies: else -ENOMEM,
 * and `way_out` tells the user what makes it less.  With `force` there is only a warning: for a
 * server that takes the place of another one, whose memory that was. Needs CAP_IPC_LOCK or a
 * sufficient RLIMIT_MEMLOCK.  Returns 0, or -errno with *error a sentence (caller frees).
 */
int
reclaim_lock_memory(size_t heap, uint64_t later, bool force, const char *way_out, char **error);

#endif
