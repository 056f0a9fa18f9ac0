/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_report.h"

#include "tool/failure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool
guard_report_name(const char *name)
{
	if (dprintf(GUARD_REPORT_FD, "%s\n", name) < 0)
		return false;
	close(GUARD_REPORT_FD);
	return true;
}

/* "17 TEXT", where a name of a device would be. */
void
guard_report_error(const GError *error)
{
	dprintf(GUARD_REPORT_FD, "%d %s\n", error->domain == FAILURE ? error->code : EIO,
		error->message);
}

char *
guard_report_read(int fd, GError **error)
{
	g_autoptr(GString) said = g_string_new(NULL);
	char bytes[256], *words;
	ssize_t n;
	long err;

	while ((n = read(fd, bytes, sizeof(bytes))) > 0 || (n < 0 && errno == EINTR))
		g_string_append_len(said, bytes, MAX(n, 0));
	g_strchomp(said->str);
	if (g_ascii_isalpha(*said->str))
		return g_strdup(said->str);
	err = strtol(said->str, &words, 10);
	if (words != said->str)
		failure(error, (int)err, "%s", g_strchug(words));
	else
		failure(error, EPIPE, "the process for the device has died");
	return NULL;
}
