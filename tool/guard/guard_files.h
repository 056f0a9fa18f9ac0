/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files of guards and their servers in /run/nbdloop: PID.sock (the server's control socket),
 * PID.guard (tool/guard/guard_link.h), PID.plan (tool/guard/guard_record.h) and, for a moment,
 * PID.nbd (the socket that nbdkit listens on).  PID is the process that attached the device.
 */
#ifndef TOOL_GUARD_GUARD_FILES_H
#define TOOL_GUARD_GUARD_FILES_H

#include <sys/types.h>

#define GUARD_DIRECTORY "/run/nbdloop"

/* The path of a file: with the suffix `kind` ("guard") in place of that of the control socket, or,
 * `control_path` being NULL, of the process `pid`.  Caller frees (g_free). */
char *
guard_files_path(const char *control_path, pid_t pid, const char *kind);

/* The guard that attached the device with this control socket, or 0: the path has no such form. */
pid_t
guard_files_owner(const char *control_path);

#endif
