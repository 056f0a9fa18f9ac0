/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/device_users.h"

#include "tool/device/device_mounts.h"
#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/link/server_link.h"
#include "tool/system_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A longer list would not help. */
#define USERS_MAX 10

struct search {
	const struct device *device;
	GPtrArray *users;       /* char *: what was found, each once */
	GHashTable *namespaces; /* mount namespaces that were searched; NULL: mounts don't matter */
};

static void __attribute__((format(printf, 2, 3)))
add_user(struct search *search, const char *format, ...)
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

/* ---- mounts */

/* Searches the mount namespace of a process, if that was not done before. */
static void
look_at_namespace(struct search *search, const char *process)
{
	g_autofree char *path = system_file_path("/proc/%s/ns/mnt", process);
	char *namespace = g_file_read_link(path, NULL);
	g_autoptr(GPtrArray) mounts = NULL;

	if (namespace && g_hash_table_add(search->namespaces, namespace))
		mounts = device_mounts(search->device, process);
	for (guint i = 0; mounts && i < mounts->len; i++) {
		const struct device_mount *mount = mounts->pdata[i];

		add_user(search, "/dev/%s is mounted on %s", mount->part, mount->where);
	}
}

/* ---- swap, and devices made of the device */

static void
look_at_swaps(struct search *search)
{
	g_autofree char *text = system_file_read("/proc/swaps");
	g_auto(GStrv) lines = g_strsplit(text ? text : "", "\n", -1);

	for (char **line = lines; *line; line++) {
		const char *part;

		(*line)[strcspn(*line, " \t")] = '\0';
		part = device_part_at(search->device, *line);
		if (part)
			add_user(search, "/dev/%s is swap space", part);
	}
}

static void
look_at_holders(struct search *search, const char *part)
{
	const char *device = search->device->name;
	g_autofree char *path =
		system_file_path("/sys/block/%s/%s/holders", device, part == device ? "." : part);
	g_autoptr(GDir) holders = g_dir_open(path, 0, NULL);
	const char *holder;

	while (holders && (holder = g_dir_read_name(holders)) != NULL) {
		g_autofree char *name = system_file_read("/sys/block/%s/dm/name", holder);

		if (name)
			add_user(search, "/dev/mapper/%s is made of /dev/%s", name, part);
		else
			add_user(search, "/dev/%s is made of /dev/%s", holder, part);
	}
}

static void
look_at_loops(struct search *search)
{
	g_autofree char *block = system_file_path("/sys/block");
	g_autoptr(GDir) entries = g_dir_open(block, 0, NULL);
	const char *name;

	while (entries && (name = g_dir_read_name(entries)) != NULL) {
		g_autofree char *file =
			g_str_has_prefix(name, "loop")
				? system_file_read("/sys/block/%s/loop/backing_file", name)
				: NULL;
		const char *part = file ? device_part_at(search->device, file) : NULL;

		if (part)
			add_user(search, "/dev/%s is made of /dev/%s", name, part);
	}
}

/* ---- open files */

/* A file of a process has its device number, whatever its name where it was opened: in a container,
 * a chroot.  This does not wait for a file on a server that doesn't answer. */
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
part_opened_by(const struct device *device, const char *process)
{
	g_autofree char *path = system_file_path("/proc/%s/fd", process);
	g_autoptr(GDir) files = g_dir_open(path, 0, NULL);
	const char *part = NULL, *file;

	while (!part && files && (file = g_dir_read_name(files)) != NULL) {
		g_autofree char *link = g_build_filename(path, file, NULL);
		g_autofree char *target = g_file_read_link(link, NULL);

		part = target ? device_part_at(device, target) : NULL;
		/* A file that has no path is no device. */
		if (!part && !(target && (g_str_has_prefix(target, "socket:[") ||
					  g_str_has_prefix(target, "pipe:[") ||
					  g_str_has_prefix(target, "anon_inode:"))))
			part = part_opened_as(device, link);
	}
	return part;
}

static char *
process_name(const char *process)
{
	char *name = system_file_read("/proc/%s/comm", process);

	return name ? name : g_strdup("gone");
}

static void
look_at_process(struct search *search, const char *process, pid_t pid)
{
	g_autofree char *program = system_file_path("/proc/%s/exe", process);
	char target[8];
	const char *part;

	/* A thread of the kernel, which has no files, has no program, either: one call instead of
	 * five for each of hundreds. */
	if (readlink(program, target, sizeof(target)) < 0 && errno == ENOENT)
		return;
	if (search->namespaces)
		look_at_namespace(search, process);
	if (pid == getpid() || pid == search->device->pid)
		return;
	part = part_opened_by(search->device, process);
	if (part) {
		g_autofree char *name = process_name(process);

		add_user(search, "process %s (%s) has /dev/%s open", process, name, part);
	}
}

static void
look_at_processes(struct search *search)
{
	g_autofree char *proc = system_file_path("/proc");
	g_autoptr(GDir) entries = g_dir_open(proc, 0, NULL);
	const char *name;

	while (entries && (name = g_dir_read_name(entries)) != NULL) {
		guint64 pid;

		if (g_ascii_string_to_unsigned(name, 10, 1, G_MAXINT, &pid, NULL))
			look_at_process(search, name, (pid_t)pid);
	}
}

static char *
join_users(GPtrArray *users)
{
	GString *text = g_string_new(NULL);

	for (guint i = 0; i < users->len && i < USERS_MAX; i++)
		g_string_append_printf(text, "%s%s", i ? "; " : "", (const char *)users->pdata[i]);
	if (users->len > USERS_MAX)
		g_string_append_printf(text, "; and %u more", users->len - USERS_MAX);
	return g_string_free(text, FALSE);
}

char *
device_users(const struct device *device)
{
	g_autoptr(GPtrArray) users = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(GHashTable) namespaces =
		g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	struct search search = {device, users, namespaces};

	look_at_namespace(&search, "self"); /* first: its paths are the user's */
	look_at_swaps(&search);
	look_at_holders(&search, device->name);
	for (guint i = 0; i < device->partitions->len; i++)
		look_at_holders(&search, device->partitions->pdata[i]);
	look_at_loops(&search);
	look_at_processes(&search);
	return users->len ? join_users(users) : NULL;
}

char *
device_openers(const struct device *device)
{
	g_autoptr(GPtrArray) users = g_ptr_array_new_with_free_func(g_free);
	struct search search = {device, users, NULL};

	look_at_loops(&search);
	look_at_processes(&search);
	return users->len ? join_users(users) : NULL;
}

char *
device_keeper(const struct device *device)
{
	g_autofree char *process = g_strdup_printf("%d", (int)device->pid);

	if (device->pid == 0 || !part_opened_by(device, process))
		return NULL;
	return process_name(process);
}

/* ---- what is attached */

bool
device_explain_attached(const struct device *device, GError **error)
{
	json_auto_t *status = server_link_status(device->backend, NULL);
	g_autofree char *image = image_file_of_server(status);
	g_autofree char *control = server_link_path(device->backend);
	const char *backend = device->backend && !control ? device->backend : "";

	if (image)
		return failure(
			error, EBUSY,
			"/dev/%s is attached already, to %s; detach it first, or name no device to get a free one",
			device->name, image);
	return failure(
		error, EBUSY,
		"/dev/%s is attached already, by process %d%s%s; detach it first, or name no device to get a free one",
		device->name, (int)device->pid, *backend ? ", to " : "", backend);
}

bool
device_check_free(const char *name, GError **error)
{
	g_autoptr(GError) why = NULL;
	struct device *DEVICE_CLEANUP device = device_read(name, &why);

	/* The driver may not be loaded yet, and makes devices that are named. */
	return !device || device->pid == 0 || device_explain_attached(device, error);
}
