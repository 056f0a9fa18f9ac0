/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/leftovers.h"

#include "tool/device/device.h"
#include "tool/server/server_link.h"

#include "common/cleanup.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A guard is a process of this program; another one may have got its number. */
static bool
is_running(pid_t pid)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/comm", (int)pid);
	g_autofree char *name = NULL, *own = NULL;

	if (kill(pid, 0) < 0 && errno == ESRCH)
		return false;
	return !g_file_get_contents(path, &name, NULL, NULL) ||
	       !g_file_get_contents("/proc/self/comm", &own, NULL, NULL) || strcmp(name, own) == 0;
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

static bool
has_socket(GPtrArray *attached, const char *control, pid_t pid)
{
	for (guint i = 0; i < attached->len; i++) {
		const struct device *device = g_ptr_array_index(attached, i);
		g_autofree char *path = device->pid ? server_link_path(device->backend) : NULL;

		if (g_strcmp0(path, control) == 0 || (device->pid != 0 && device->pid == pid))
			return true;
	}
	return false;
}

static void
look_at(const char *directory, const char *name, GPtrArray *attached)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);
	g_autofree char *control = NULL;
	char kind[8] = "";
	int pid = 0;

	if (sscanf(name, "%d.%7[a-z]", &pid, kind) != 2 || pid <= 0)
		return;
	if (strcmp(kind, "sock") != 0 && strcmp(kind, "guard") != 0 && strcmp(kind, "nbd") != 0 &&
	    strcmp(kind, "plan") != 0)
		return;
	control = g_strdup_printf("%s/%d.sock", directory, pid);
	if (is_running(pid) || has_socket(attached, control, pid) ||
	    is_listened_on(control, SOCK_STREAM) ||
	    is_listened_on(path, strcmp(kind, "guard") == 0 ? SOCK_SEQPACKET : SOCK_STREAM))
		return;
	unlink(path);
}

void
leftovers_remove(const char *directory, GPtrArray *attached)
{
	g_autoptr(GDir) files = g_dir_open(directory, 0, NULL);
	const char *name;

	while (files && (name = g_dir_read_name(files)) != NULL)
		look_at(directory, name, attached);
}
