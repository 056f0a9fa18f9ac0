/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files of guards and their servers in /run/nbdloop: PID.sock (the server's control socket),
 * PID.guard (tool/guard/guard_link.h), PID.plan (tool/guard/guard_record.h) and, briefly, PID.nbd
 * (the socket on which nbdkit listens).  PID is the guard that attached the device.
 */
#ifndef TOOL_GUARD_GUARD_FILES_H
#define TOOL_GUARD_GUARD_FILES_H

#include <glib.h>
#include <sys/types.h>

#define GUARD_DIRECTORY "/run/nbdloop"

/* The path of a file of the kind `kind` ("guard"): beside the control socket `control_path`, or, if
 * that is NULL, of the process `pid`.  Caller frees (g_free). */
char *
guard_files_path(const char *control_path, pid_t pid, const char *kind);

/* The process ID of the guard that attached the device with this control socket; 0: the path has
 * another form. */
pid_t
guard_files_owner(const char *control_path);

/*
 * Removes from `directory` the files of guards that were killed together with their servers.  A
 * file stays if a process listens on its socket, or if an attached device belongs to it: that
 * device can still be adopted.  As long as all guards run, this reads nothing but their names.
 */
void
guard_files_clean(const char *directory);

#endif
