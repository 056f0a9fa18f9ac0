/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server whose image is a disk of its own machine, above all one with swap space on it: when memory is
 * short, the kernel writes to that disk, and the server must be able to carry this out without waiting
 * for memory itself.
 */
#ifndef ENGINE_RECLAIM_H
#define ENGINE_RECLAIM_H

/*
 * Declares the calling thread, and the processes and threads that it starts from now on, a part of the
 * way on which memory is freed (PR_SET_IO_FLUSHER, Linux 5.6: what they allocate doesn't wait for I/O),
 * and keeps the out-of-memory killer away.  Needs CAP_SYS_RESOURCE: call it before privileges are
 * dropped.  Returns 0, or -errno with *error a sentence (caller frees).
 */
int
reclaim_serve(char **error);

/*
 * Locks the process's memory: what there is now, and later memory once it is touched (a whole stack for
 * each thread would cost more than it helps; for the same reason, no huge pages).  A child process doesn't inherit it.  Needs CAP_IPC_LOCK or
 * a sufficient RLIMIT_MEMLOCK.  Returns 0, or -errno with *error a sentence (caller frees).
 */
int
reclaim_lock_memory(char **error);

#endif
