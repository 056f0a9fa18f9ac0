/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/device_users.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A longer list would not help. */
#define USERS_MAX 10

struct search {
	const char *sys, *proc;
	const struct device *device;
	GPtrArray *users;       /* char *: what was found, each once */
	GHashTable *namespaces; /* of mounts, those that were looked into */
};

static void __attribute__((format(printf, 2, 3)))
found(struct search *search, const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = g_strdup_vprintf(format, arguments);
	va_end(arguments);
	if (g_ptr_array_find_with_equal_func(search->users, text, g_str_equal, NULL))
		g_free(text);
	else
		g_ptr_array_add(search->users, text);
}

/* The device's name or its partition's, if that is what a path such as /dev/nbd0p1 means; or NULL.
 */
static const char *
part_of_path(const struct device *device, const char *path)
{
	const char *name = path + strlen("/dev/");

	if (!g_str_has_prefix(path, "/dev/"))
		return NULL;
	if (strcmp(name, device->name) == 0)
		return device->name;
	for (guint i = 0; i < device->partitions->len; i++) {
		if (strcmp(name, device->partitions->pdata[i]) == 0)
			return device->partitions->pdata[i];
	}
	return NULL;
}

/* ---- mounts */

/* Btrfs and the like have numbers of their own there, but name the device. */
static const char *
part_of_mount(const struct search *search, char *const *fields)
{
	guint i = 6;

	while (fields[i] && strcmp(fields[i], "-") != 0)
		i++;
	if (!fields[i] || !fields[i + 1] || !fields[i + 2])
		return NULL;
	return part_of_path(search->device, fields[i + 2]);
}

static void
look_at_mounts(struct search *search, const char *process)
{
	g_autofree char *path = g_build_filename(search->proc, process, "mountinfo", NULL);
	g_autofree char *text = NULL;
	g_auto(GStrv) lines = NULL;

	if (!g_file_get_contents(path, &text, NULL, NULL))
		return;
	lines = g_strsplit(text, "\n", -1);
	for (char **line = lines; *line; line++) {
		g_auto(GStrv) fields = g_strsplit(*line, " ", -1);
		g_autofree char *where = NULL;
		unsigned int numbers[2];
		const char *part = NULL;

		if (g_strv_length(fields) < 9)
			continue;
		if (sscanf(fields[2], "%u:%u", &numbers[0], &numbers[1]) == 2)
			part = device_part_numbered(search->device,
						    makedev(numbers[0], numbers[1]));
		if (!part)
			part = part_of_mount(search, fields);
		where = g_strcompress(fields[4]); /* a blank is \040 there */
		if (part)
			found(search, "/dev/%s is mounted on %s", part, where);
	}
}

/* Those of a process's mount namespace, if no other one's of it were looked at. */
static void
look_at_namespace(struct search *search, const char *process)
{
	g_autofree char *path = g_build_filename(search->proc, process, "ns/mnt", NULL);
	char *namespace = g_file_read_link(path, NULL);

	if (namespace && g_hash_table_add(search->namespaces, namespace))
		look_at_mounts(search, process);
}

/* ---- swap, and devices made of it */

static void
look_at_swaps(struct search *search)
{
	g_autofree char *path = g_build_filename(search->proc, "swaps", NULL);
	g_autofree char *text = NULL;
	g_auto(GStrv) lines = NULL;

	if (!g_file_get_contents(path, &text, NULL, NULL))
		return;
	lines = g_strsplit(text, "\n", -1);
	for (char **line = lines; *line; line++) {
		const char *part;

		(*line)[strcspn(*line, " \t")] = '\0';
		part = part_of_path(search->device, *line);
		if (part)
			found(search, "/dev/%s is swap space", part);
	}
}

static void
look_at_holders(struct search *search, const char *part)
{
	const char *device = search->device->name;
	g_autofree char *path = g_build_filename(search->sys, "block", device,
						 part == device ? "." : part, "holders", NULL);
	g_autoptr(GDir) holders = g_dir_open(path, 0, NULL);
	const char *holder;

	while (holders && (holder = g_dir_read_name(holders)) != NULL) {
		g_autofree char *name_path =
			g_build_filename(search->sys, "block", holder, "dm/name", NULL);
		g_autofree char *name = NULL;

		if (g_file_get_contents(name_path, &name, NULL, NULL))
			found(search, "/dev/mapper/%s is made of /dev/%s", g_strchomp(name), part);
		else
			found(search, "/dev/%s is made of /dev/%s", holder, part);
	}
}

static void
look_at_loops(struct search *search)
{
	g_autofree char *block = g_build_filename(search->sys, "block", NULL);
	g_autoptr(GDir) entries = g_dir_open(block, 0, NULL);
	const char *name;

	while (entries && (name = g_dir_read_name(entries)) != NULL) {
		g_autofree char *path = g_build_filename(block, name, "loop/backing_file", NULL);
		g_autofree char *file = NULL;
		const char *part = NULL;

		if (g_str_has_prefix(name, "loop") && g_file_get_contents(path, &file, NULL, NULL))
			part = part_of_path(search->device, g_strchomp(file));
		if (part)
			found(search, "/dev/%s is made of /dev/%s", name, part);
	}
}

/* ---- open files */

/* A descriptor's file tells its device's number, whatever that is called where it was opened: in a
 * container, a chroot.  A file on a server that doesn't answer isn't waited for. */
static const char *
part_opened_as(const struct device *device, const char *link)
{
	struct statx stx;

	if (statx(AT_FDCWD, link, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &stx) < 0 ||
	    !S_ISBLK(stx.stx_mode))
		return NULL;
	return device_part_numbered(device, makedev(stx.stx_rdev_major, stx.stx_rdev_minor));
}

/* Which part of the device a process has open, or NULL. */
static const char *
part_opened_by(const char *proc, const struct device *device, const char *process)
{
	g_autofree char *path = g_build_filename(proc, process, "fd", NULL);
	g_autoptr(GDir) files = g_dir_open(path, 0, NULL);
	const char *part = NULL, *file;

	while (!part && files && (file = g_dir_read_name(files)) != NULL) {
		g_autofree char *link = g_build_filename(path, file, NULL);
		g_autofree char *target = g_file_read_link(link, NULL);

		part = target ? part_of_path(device, target) : NULL;
		if (!part)
			part = part_opened_as(device, link);
	}
	return part;
}

static char *
process_name(const char *proc, const char *process)
{
	g_autofree char *path = g_build_filename(proc, process, "comm", NULL);
	char *name = NULL;

	if (!g_file_get_contents(path, &name, NULL, NULL))
		return g_strdup("gone");
	return g_strchomp(name);
}

static void
look_at_process(struct search *search, const char *process, pid_t pid)
{
	const char *part;

	look_at_namespace(search, process);
	if (pid == getpid() || pid == search->device->pid)
		return;
	part = part_opened_by(search->proc, search->device, process);
	if (part) {
		g_autofree char *name = process_name(search->proc, process);

		found(search, "process %s (%s) has /dev/%s open", process, name, part);
	}
}

static void
look_at_processes(struct search *search)
{
	g_autoptr(GDir) entries = g_dir_open(search->proc, 0, NULL);
	const char *name;

	while (entries && (name = g_dir_read_name(entries)) != NULL) {
		guint64 pid;

		if (g_ascii_string_to_unsigned(name, 10, 1, G_MAXINT, &pid, NULL))
			look_at_process(search, name, (pid_t)pid);
	}
}

/* ---- the whole */

static char *
join(GPtrArray *users)
{
	GString *text = g_string_new(NULL);

	for (guint i = 0; i < users->len && i < USERS_MAX; i++)
		g_string_append_printf(text, "%s%s", i ? "; " : "", (const char *)users->pdata[i]);
	if (users->len > USERS_MAX)
		g_string_append_printf(text, "; and %u more", users->len - USERS_MAX);
	return g_string_free(text, FALSE);
}

char *
device_users(const char *sys, const char *proc, const struct device *device)
{
	g_autoptr(GPtrArray) users = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(GHashTable) namespaces =
		g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	struct search search = {sys, proc, device, users, namespaces};

	look_at_namespace(&search, "self"); /* first: its paths are those that the user knows */
	look_at_swaps(&search);
	look_at_holders(&search, device->name);
	for (guint i = 0; i < device->partitions->len; i++)
		look_at_holders(&search, device->partitions->pdata[i]);
	look_at_loops(&search);
	look_at_processes(&search);
	return users->len ? join(users) : NULL;
}

char *
device_keeper(const char *proc, const struct device *device)
{
	g_autofree char *process = g_strdup_printf("%d", (int)device->pid);

	if (device->pid == 0 || !part_opened_by(proc, device, process))
		return NULL;
	return process_name(proc, process);
}
