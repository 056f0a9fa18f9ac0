/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/system_root.h"

#include <glib.h>

char *
system_root_path(const char *path)
{
	const char *root = g_getenv("NBDLOOP_SYSROOT");

	return g_strconcat(root ? root : "", path, NULL);
}
