/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/image_file.h"

#include "tool/failure.h"
#include "tool/server/server_link.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

char *
image_file_find(const char *image, GError **error)
{
	g_autofree char *path = realpath(image, NULL);
	struct stat st;

	if (!path || stat(path, &st) < 0)
		return FAILURE_NULL(error, errno, "%s: %s", image, g_strerror(errno));
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return FAILURE_NULL(error, EINVAL, "%s is neither a file nor a block device",
				    image);
	return g_steal_pointer(&path);
}

/* For reading, and not with O_PATH: the number of a block device that is pulled out is not given to
 * another one as long as somebody has it open. */
int
image_file_hold(const char *path, GError **error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		failure(error, errno, "%s: %s", path, g_strerror(errno));
	return fd;
}

uint64_t
image_file_size(const char *path, const struct stat *st)
{
	int fd = S_ISBLK(st->st_mode) ? image_file_hold(path, NULL) : -1;
	uint64_t size = S_ISBLK(st->st_mode) ? 0 : (uint64_t)st->st_size;

	if (fd >= 0) {
		ioctl(fd, BLKGETSIZE64, &size);
		close(fd);
	}
	return size;
}

char *
image_file_path(int held)
{
	return g_strdup_printf("/proc/%d/fd/%d", (int)getpid(), held);
}

bool
image_file_is_named(const char *path, int held)
{
	struct stat ours, there;

	/* A file that a file server has lost is not the one that has its name now. */
	return fstat(held, &ours) == 0 && stat(path, &there) == 0 &&
	       image_file_device(&ours) == image_file_device(&there) &&
	       image_file_inode(&ours) == image_file_inode(&there);
}

char *
image_file_name(const char *path)
{
	int process, fd, length = 0;
	char *name = NULL;

	if (sscanf(path, "/proc/%d/fd/%d%n", &process, &fd, &length) == 2 && path[length] == '\0')
		name = g_file_read_link(path, NULL);
	return name ? name : g_strdup(path);
}

dev_t
image_file_device(const struct stat *st)
{
	return S_ISBLK(st->st_mode) ? st->st_rdev : st->st_dev;
}

ino_t
image_file_inode(const struct stat *st)
{
	return S_ISBLK(st->st_mode) ? 0 : st->st_ino;
}

bool
image_file_is(const struct stat *st, const char *device, gint64 inode)
{
	dev_t number = image_file_device(st);
	g_autofree char *numbers = g_strdup_printf("%u:%u", major(number), minor(number));

	return inode == (gint64)image_file_inode(st) && g_strcmp0(device, numbers) == 0;
}

char *
image_file_opened_by(pid_t pid, const char *device, gint64 inode)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/fd", (int)pid);
	g_autoptr(GDir) files = pid > 0 ? g_dir_open(path, 0, NULL) : NULL;
	const char *name;

	while (files && (name = g_dir_read_name(files)) != NULL) {
		g_autofree char *file = g_build_filename(path, name, NULL);
		struct stat st;

		if (stat(file, &st) == 0 && image_file_is(&st, device, inode))
			return g_steal_pointer(&file);
	}
	return NULL;
}

char *
image_file_served(const char *path, const char *device, gint64 inode, pid_t pid)
{
	g_autofree char *opened = NULL;
	char *name = NULL;
	struct stat st;

	if (stat(path, &st) < 0 || !image_file_is(&st, device, inode))
		opened = image_file_opened_by(pid, device, inode);
	if (opened)
		name = g_file_read_link(opened, NULL);
	return name ? name : image_file_name(path);
}

static const char *
device_of(JsonObject *export)
{
	return json_object_get_string_member_with_default(export, "device", NULL);
}

static gint64
inode_of(JsonObject *export)
{
	return json_object_get_int_member_with_default(export, "inode", -1);
}

char *
image_file_of_server(JsonObject *status)
{
	JsonObject *export = server_link_export(status);
	const char *path =
		export ? json_object_get_string_member_with_default(export, "file", NULL) : NULL;

	return path ? image_file_served(path, device_of(export), inode_of(export),
					server_link_pid(status))
		    : NULL;
}

bool
image_file_is_export(const struct stat *st, JsonObject *export)
{
	return image_file_is(st, device_of(export), inode_of(export));
}
