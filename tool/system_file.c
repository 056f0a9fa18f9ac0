/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/system_file.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

const char *
system_file_root(void)
{
	const char *root = g_getenv("NBDLOOP_SYSROOT");

	return root ? root : "";
}

G_GNUC_PRINTF(1, 0)
static char *
system_path(const char *format, va_list arguments)
{
	g_autofree char *path = g_strdup_vprintf(format, arguments);

	return g_strconcat(system_file_root(), path, NULL);
}

char *
system_file_path(const char *format, ...)
{
	va_list arguments;
	char *path;

	va_start(arguments, format);
	path = system_path(format, arguments);
	va_end(arguments);
	return path;
}

char *
system_file_read(const char *format, ...)
{
	g_autofree char *path = NULL;
	va_list arguments;

	va_start(arguments, format);
	path = system_path(format, arguments);
	va_end(arguments);
	return system_file_read_path(path);
}

/* Most such files are tiny, and many aren't there, which costs g_file_get_contents() ten times as
 * much: the words for an error need the tables of character sets. */
char *
system_file_read_path(const char *path)
{
	int CLEANUP_CLOSE fd = open(path, O_RDONLY | O_CLOEXEC);
	g_autoptr(GString) text = NULL;
	char bytes[4096];
	ssize_t n;

	if (fd < 0)
		return NULL;
	text = g_string_new(NULL);
	while ((n = read(fd, bytes, sizeof(bytes))) > 0 || (n < 0 && errno == EINTR))
		g_string_append_len(text, bytes, MAX(n, 0));
	return n < 0 ? NULL : g_strchomp(g_string_free(g_steal_pointer(&text), FALSE));
}
