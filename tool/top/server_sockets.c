/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/top/server_sockets.h"

#include "tool/system_file.h"

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

/* A configuration file that is larger is none. */
#define FILE_MAX (1 << 20)

/* The path from the working directory of a process on; NULL: the directory is not known, because
 * the process belongs to another user, and the path is relative. */
static char *
full_path(const char *path, const char *directory)
{
	return directory || g_path_is_absolute(path) ? g_canonicalize_filename(path, directory)
						     : NULL;
}

static void
sockets_add_path(GPtrArray *paths, const char *path, const char *directory)
{
	g_autofree char *full = full_path(path, directory);

	if (full && *path && !g_ptr_array_find_with_equal_func(paths, full, g_str_equal, NULL))
		g_ptr_array_add(paths, g_steal_pointer(&full));
}

/* The lines "control = PATH" of a file that the server read, or will read.  Never waits for a
 * writer, as a FIFO would have it. */
static void
add_configured(GPtrArray *paths, const char *file, const char *directory)
{
	g_autofree char *full = full_path(file, directory), *text = NULL;
	g_auto(GStrv) lines = NULL;
	struct stat st;

	if (!full || stat(full, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX ||
	    !g_file_get_contents(full, &text, NULL, NULL))
		return;
	lines = g_strsplit(text, "\n", -1);
	for (char **line = lines; *line; line++) {
		char *value = strchr(*line, '=');

		if (!value)
			continue;
		*value++ = '\0';
		if (strcmp(g_strstrip(*line), "control") == 0)
			sockets_add_path(paths, g_strstrip(value), directory);
	}
}

/* The value of an option in `word`, or in the word after it; NULL: the word is something else. */
static const char *
option_value(const char *option, const char *word, const char *next)
{
	size_t length = strlen(option);

	if (strncmp(word, option, length) != 0)
		return NULL;
	if (word[length] == '=')
		return word + length + 1;
	return word[length] == '\0' && g_str_has_prefix(option, "--") ? next : NULL;
}

void
server_sockets_add(GPtrArray *paths, const char *words, size_t length, const char *directory)
{
	const char *end = words + length;

	/* The last word may lack its NUL: a process can change its command line. */
	for (const char *word = words; word < end && memchr(word, 0, (size_t)(end - word));) {
		const char *next = word + strlen(word) + 1, *value;
		bool has_next = next < end && memchr(next, 0, (size_t)(end - next));

		/* nbdloopd's option, and the parameter of nbdkit's plugin. */
		if ((value = option_value("--control", word, has_next ? next : NULL)) ||
		    (value = option_value("control", word, NULL)))
			sockets_add_path(paths, value, directory);
		else if ((value = option_value("--config", word, has_next ? next : NULL)))
			add_configured(paths, value, directory);
		word = next;
	}
}

static void
add_process(GPtrArray *paths, const char *process)
{
	g_autofree char *name = system_file_read("/proc/%s/comm", process),
			*words_file = system_file_path("/proc/%s/cmdline", process),
			*directory_file = system_file_path("/proc/%s/cwd", process), *words = NULL,
			*directory = NULL;
	size_t length;

	if (!name || (strcmp(name, "nbdloopd") != 0 && strcmp(name, "nbdkit") != 0) ||
	    !g_file_get_contents(words_file, &words, &length, NULL))
		return;
	directory = g_file_read_link(directory_file, NULL);
	server_sockets_add(paths, words, length, directory);
}

GPtrArray *
server_sockets_find(void)
{
	GPtrArray *paths = g_ptr_array_new_with_free_func(g_free);
	g_autofree char *processes = system_file_path("/proc");
	GDir *directory = g_dir_open(processes, 0, NULL);
	const char *name;

	while (directory && (name = g_dir_read_name(directory))) {
		if (g_ascii_isdigit(*name))
			add_process(paths, name);
	}
	if (directory)
		g_dir_close(directory);
	return paths;
}
