/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the kernel's own files are: /sys and /proc, or a recorded tree of them that the environment
 * variable NBDLOOP_SYSROOT names, for tests.
 */
#ifndef TOOL_SYSTEM_ROOT_H
#define TOOL_SYSTEM_ROOT_H

/* "/sys", or the same below the recorded tree.  Caller frees (g_free). */
char *
system_root_path(const char *path);

#endif
