/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device_users.h"

#include <string.h>
#include <unistd.h>

/* The users found so far, each a text of its own. */
struct search {
	const char *sys, *proc;
	GPtrArray *nodes;   /* "/dev/nbd0", "/dev/nbd0p1", ... */
	GPtrArray *numbers; /* "43:0", ... */
	GPtrArray *users;
};

static bool
is_node(const struct search *search, const char *path)
{
	return g_ptr_array_find_with_equal_func(search->nodes, path, g_str_equal, NULL);
}

static void
add_directory(struct search *search, const char *directory, const char *name)
{
	g_autofree char *numbers = g_build_filename(directory, "dev", NULL);
	g_autofree char *holders = g_build_filename(directory, "holders", NULL);
	g_autoptr(GDir) entries = g_dir_open(holders, 0, NULL);
	const char *entry;
	char *text = NULL;

	g_ptr_array_add(search->nodes, g_strconcat("/dev/", name, NULL));
	if (g_file_get_contents(numbers, &text, NULL, NULL))
		g_ptr_array_add(search->numbers, g_strchomp(text));
	while (entries && (entry = g_dir_read_name(entries)))
		g_ptr_array_add(search->users, g_strdup_printf("the device %s is on it", entry));
}

/* mountinfo(5): the third word is the device, the fifth the mount point. */
static void
find_mounts(struct search *search)
{
	g_autofree char *path = g_build_filename(search->proc, "self", "mountinfo", NULL);
	g_autofree char *text = NULL;
	g_auto(GStrv) lines = NULL;

	if (!g_file_get_contents(path, &text, NULL, NULL))
		return;
	lines = g_strsplit(text, "\n", -1);
	for (char **line = lines; *line; line++) {
		g_auto(GStrv) words = g_strsplit(*line, " ", 6);

		if (g_strv_length(words) == 6 && g_ptr_array_find_with_equal_func(search->numbers, words[2], g_str_equal, NULL))
			g_ptr_array_add(search->users, g_strdup_printf("it is mounted at %s", words[4]));
	}
}

static void
find_swap(struct search *search)
{
	g_autofree char *path = g_build_filename(search->proc, "swaps", NULL);
	g_autofree char *text = NULL;
	g_auto(GStrv) lines = NULL;

	if (!g_file_get_contents(path, &text, NULL, NULL))
		return;
	lines = g_strsplit(text, "\n", -1);
	for (char **line = lines; *line; line++) {
		**line && (*line)[strcspn(*line, " \t")] ? (void)((*line)[strcspn(*line, " \t")] = '\0') : (void)0;
		if (is_node(search, *line))
			g_ptr_array_add(search->users, g_strdup_printf("%s is swap space", *line));
	}
}

static bool
has_open(const struct search *search, const char *descriptors)
{
	g_autoptr(GDir) entries = g_dir_open(descriptors, 0, NULL);
	const char *entry;

	while (entries && (entry = g_dir_read_name(entries))) {
		g_autofree char *path = g_build_filename(descriptors, entry, NULL);
		g_autofree char *target = g_file_read_link(path, NULL);

		if (target && is_node(search, target))
			return true;
	}
	return false;
}

static void
find_processes(struct search *search)
{
	g_autofree char *self = g_strdup_printf("%d", (int)getpid());
	g_autoptr(GDir) entries = g_dir_open(search->proc, 0, NULL);
	const char *entry;

	while (entries && (entry = g_dir_read_name(entries))) {
		g_autofree char *descriptors = g_build_filename(search->proc, entry, "fd", NULL);
		g_autofree char *comm = g_build_filename(search->proc, entry, "comm", NULL);
		g_autofree char *name = NULL;

		if (!g_ascii_isdigit(entry[0]) || g_str_equal(entry, self) || !has_open(search, descriptors))
			continue;
		if (g_file_get_contents(comm, &name, NULL, NULL))
			g_strchomp(name);
		g_ptr_array_add(search->users, g_strdup_printf("process %s (%s) has it open", entry, name ? name : "?"));
	}
}

char *
device_users(const char *sys, const char *proc, const struct device *device)
{
	g_autoptr(GPtrArray) nodes = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(GPtrArray) numbers = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(GPtrArray) users = g_ptr_array_new_with_free_func(g_free);
	g_autofree char *directory = g_build_filename(sys, "block", device->name, NULL);
	struct search search = {.sys = sys, .proc = proc, .nodes = nodes, .numbers = numbers, .users = users};

	add_directory(&search, directory, device->name);
	for (guint i = 0; i < device->partitions->len; i++) {
		const char *name = g_ptr_array_index(device->partitions, i);
		g_autofree char *partition = g_build_filename(directory, name, NULL);

		add_directory(&search, partition, name);
	}
	find_mounts(&search);
	find_swap(&search);
	find_processes(&search);
	if (users->len == 0)
		return NULL;
	g_ptr_array_add(users, NULL);
	return g_strjoinv(", ", (char **)users->pdata);
}
