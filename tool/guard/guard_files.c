/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_files.h"

#include <glib.h>
#include <stdio.h>
#include <string.h>

char *
guard_files_path(const char *control_path, pid_t pid, const char *kind)
{
	g_autofree char *stem = control_path ? g_strdup(control_path)
					     : g_strdup_printf(GUARD_DIRECTORY "/%d", (int)pid);

	if (control_path && g_str_has_suffix(stem, ".sock"))
		*strrchr(stem, '.') = '\0';
	return g_strdup_printf("%s.%s", stem, kind);
}

pid_t
guard_files_owner(const char *control_path)
{
	int pid = 0, length = 0;

	if (sscanf(control_path, GUARD_DIRECTORY "/%d.sock%n", &pid, &length) != 1 || length == 0 ||
	    control_path[length])
		return 0;
	return pid;
}
