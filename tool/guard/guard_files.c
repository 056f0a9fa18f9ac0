/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_files.h"

#include "tool/device/device.h"
#include "tool/link/server_link.h"
#include "tool/system_file.h"

#include "common/cleanup.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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

/* ---- files that are left */

/* A guard is a process of this program; by now, another program's process may have its ID. */
static bool
is_running(pid_t pid)
{
	g_autofree char *name = NULL, *own = NULL;

	if (kill(pid, 0) < 0 && errno == ESRCH)
		return false;
	name = system_file_read("/proc/%d/comm", (int)pid);
	own = system_file_read("/proc/self/comm");
	return !name || !own || strcmp(name, own) == 0;
}

static bool
is_listened_on(const char *path, int type)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int CLEANUP_CLOSE fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || strlen(path) >= sizeof(address.sun_path))
		return true;
	strcpy(address.sun_path, path);
	return connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ||
	       (errno != ECONNREFUSED && errno != ENOENT);
}

struct cleaning {
	const char *directory;
	GPtrArray *attached; /* devices; NULL: not read yet */
	int running;         /* a guard that runs; each has several files, one after the other */
};

/* Also if the devices can't be read. */
static bool
may_have_device(struct cleaning *cleaning, const char *control, pid_t pid)
{
	if (!cleaning->attached)
		cleaning->attached = devices_identify_attached(NULL);
	if (!cleaning->attached)
		return true;
	for (guint i = 0; i < cleaning->attached->len; i++) {
		const struct device *device = g_ptr_array_index(cleaning->attached, i);
		g_autofree char *path = server_link_path(device->backend);

		if (g_strcmp0(path, control) == 0 || device->pid == pid)
			return true;
	}
	return false;
}

static void
guard_files_look_at(struct cleaning *cleaning, const char *name)
{
	g_autofree char *path = NULL, *control = NULL;
	char kind[8] = "";
	int pid = 0;

	if (sscanf(name, "%d.%7[a-z]", &pid, kind) != 2 || pid <= 0)
		return;
	if (strcmp(kind, "sock") != 0 && strcmp(kind, "guard") != 0 && strcmp(kind, "nbd") != 0 &&
	    strcmp(kind, "plan") != 0)
		return;
	if (pid == cleaning->running || is_running(pid)) {
		cleaning->running = pid;
		return;
	}
	path = g_build_filename(cleaning->directory, name, NULL);
	control = g_strdup_printf("%s/%d.sock", cleaning->directory, pid);
	if (may_have_device(cleaning, control, pid) || is_listened_on(control, SOCK_STREAM) ||
	    is_listened_on(path, strcmp(kind, "guard") == 0 ? SOCK_SEQPACKET : SOCK_STREAM))
		return;
	unlink(path);
}

void
guard_files_clean(const char *directory)
{
	struct cleaning cleaning = {.directory = directory};
	g_autoptr(GDir) files = g_dir_open(directory, 0, NULL);
	const char *name;

	while (files && (name = g_dir_read_name(files)) != NULL)
		guard_files_look_at(&cleaning, name);
	if (cleaning.attached)
		g_ptr_array_unref(cleaning.attached);
}
