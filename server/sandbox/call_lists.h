/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The system calls that the threads of a running server make, by name.
 */
#ifndef SERVER_SANDBOX_CALL_LISTS_H
#define SERVER_SANDBOX_CALL_LISTS_H

/* All end with NULL. A name that an architecture, or libseccomp, doesn't have is left out. */

/* What every thread of a C program needs: memory, locks, time, its end. */
extern const char *const basic_calls[];

/* Reading, writing and waiting, of sockets and pipes as well, and of the log. */
extern const char *const stream_calls[];

/* Advice about pages of files. */
extern const char *const page_cache_calls[];

/* Of files: transfers, syncs, space, locks, facts; and event loops' waiting. */
extern const char *const file_calls[];

/* Of sockets that are connected. */
extern const char *const socket_calls[];

/* Taking clients. */
extern const char *const accept_calls[];

/* Linux AIO, and io_uring; registrations of a ring are allowed one by one (call_filter.c). */
extern const char *const aio_calls[];
extern const char *const ring_calls[];

/* Making rings for others. */
extern const char *const ring_making_calls[];

/* Opening what Landlock lets a thread open, and looking for it. */
extern const char *const open_calls[];

/* Files get or lose their names. */
extern const char *const name_calls[];

/* Only at changes of the exports: sockets that listen, and facts of the process. */
extern const char *const change_calls[];

/* What a server never does after its start, but an attacker would. */
extern const char *const deadly_calls[];

#endif
