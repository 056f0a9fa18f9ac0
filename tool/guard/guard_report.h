/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A new guard's one message to the process that started it, through a pipe: the name of its device,
 * or an error.
 */
#ifndef TOOL_GUARD_GUARD_REPORT_H
#define TOOL_GUARD_GUARD_REPORT_H

#include <glib.h>
#include <stdbool.h>

/* The pipe's end in the guard. */
#define GUARD_REPORT_FD 3

/* Tells the name, and closes the pipe.  False: the process that started the guard has ended. */
bool
guard_report_name(const char *name);

void
guard_report_error(const GError *error);

/* Reads the report from the other end until the guard has closed its own.  Returns the name, which
 * the caller frees; NULL with the guard's error, or EPIPE: it has died. */
char *
guard_report_read(int fd, GError **error);

#endif
