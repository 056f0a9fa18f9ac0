/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Filters of system calls (seccomp), made by libseccomp: one for the whole process, and further
 * ones for kinds of threads. A call that the server never makes, but an attacker would, such as
 * execve(), ends the process; any other that is not listed fails with ENOSYS, as in a kernel that
 * doesn't have it.
 */
#ifndef SERVER_SANDBOX_CALL_FILTER_H
#define SERVER_SANDBOX_CALL_FILTER_H

#include "common/thread.h"

#include <stdbool.h>

/* The filter of the main thread and of all that it starts. */
#define FILTER_PROCESS THREAD_KINDS
#define FILTERS        (FILTER_PROCESS + 1)

/* Makes the filters; `log`: all threads may connect to unix sockets, as syslog() does. Returns 0,
 * or -errno with *reason, a static text: why there can be none. */
int
call_filters_make(bool log, const char **reason);
void
call_filters_free(void);

/* Puts the calling thread, and those that it will start, under a filter, besides those that it is
 * under. It has no new privileges already. Returns 0 or -errno. */
int
call_filter_enter(unsigned int filter);

#endif
