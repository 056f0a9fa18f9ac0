/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control sockets of the servers that run on this machine, as their command lines and
 * configuration files name them.  Nothing here connects to one.
 */
#ifndef TOOL_TOP_SERVER_SOCKETS_H
#define TOOL_TOP_SERVER_SOCKETS_H

#include <glib.h>

/* Absolute paths (char *), each once; the array frees them (g_ptr_array_unref).  Those of another
 * user's server are there, too, though they may not answer; but not relative ones, because /proc
 * does not show that server's working directory. */
GPtrArray *
server_sockets_find(void);

/* Adds the control sockets in a command line: `length` bytes of words that each end with a NUL, as
 * /proc/PID/cmdline has them; `directory`: the process's working directory; NULL: unknown. */
void
server_sockets_add(GPtrArray *paths, const char *words, size_t length, const char *directory);

#endif
