/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/image_file.h"

#include "tool/failure.h"
#include "tool/link/server_link.h"

#include "common/cleanup.h"
#include "common/image_lock.h"
#include "engine/backing/image_kinds.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

bool
image_file_is_here(const char *image)
{
	return image_kind_is_path(image);
}

char *
image_file_find(const char *image, GError **error)
{
	g_autofree char *path = image_file_is_here(image) ? realpath(image, NULL) : NULL;
	struct stat st;

	if (!image_file_is_here(image))
		return g_strdup(image);
	if (!path || stat(path, &st) < 0)
		return FAILURE_NULL(error, errno, "%s: %s", image, g_strerror(errno));
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return FAILURE_NULL(error, EINVAL, "%s is neither a file nor a block device",
				    image);
	return g_steal_pointer(&path);
}

/* Opened for reading, not with O_PATH: while a block device that was unplugged is open, no other
 * one gets its number. */
int
image_file_hold(const char *path, GError **error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		failure_errno(error, errno, "%s", path);
	return fd;
}

bool
image_file_has_no_writer(const char *path, GError **error)
{
	struct flock lock = {.l_type = F_WRLCK,
			     .l_whence = SEEK_SET,
			     .l_start = IMAGE_LOCK_HELD + IMAGE_LOCK_WRITE,
			     .l_len = 1};
	int CLEANUP_CLOSE fd = image_file_hold(path, NULL);

	return fd < 0 || fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type == F_UNLCK ||
	       failure(error, EBUSY,
		       "%s: a server (nbdloopd, QEMU) has it open to write to it: stop "
		       "that first, or name another file",
		       path);
}

uint64_t
image_file_size(const char *path, const struct stat *st)
{
	int CLEANUP_CLOSE fd = S_ISBLK(st->st_mode) ? image_file_hold(path, NULL) : -1;
	uint64_t size = S_ISBLK(st->st_mode) ? 0 : (uint64_t)st->st_size;

	if (fd >= 0)
		ioctl(fd, BLKGETSIZE64, &size);
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
	struct image_identity image;
	struct stat ours, there;

	/* fstat() fails for a file that a file server has lost. */
	if (fstat(held, &ours) < 0 || stat(path, &there) < 0)
		return false;
	image = image_file_identity(&ours);
	return image_file_is(&there, &image);
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

struct image_identity
image_file_identity(const struct stat *st)
{
	return S_ISBLK(st->st_mode) ? (struct image_identity){.device = st->st_rdev}
				    : (struct image_identity){st->st_dev, st->st_ino};
}

bool
image_file_is(const struct stat *st, const struct image_identity *image)
{
	const struct image_identity own = image_file_identity(st);

	return image->device != 0 && own.device == image->device && own.inode == image->inode;
}

char *
image_file_opened_by(pid_t pid, const struct image_identity *image)
{
	g_autofree char *path = g_strdup_printf("/proc/%d/fd", (int)pid);
	g_autoptr(GDir) files = pid > 0 ? g_dir_open(path, 0, NULL) : NULL;
	const char *name;

	while (files && (name = g_dir_read_name(files)) != NULL) {
		g_autofree char *file = g_build_filename(path, name, NULL);
		struct stat st;

		if (stat(file, &st) == 0 && image_file_is(&st, image))
			return g_steal_pointer(&file);
	}
	return NULL;
}

char *
image_file_served(const char *path, const struct image_identity *image, pid_t pid)
{
	g_autofree char *opened = NULL;
	char *name = NULL;
	struct stat st;

	if (stat(path, &st) < 0 || !image_file_is(&st, image))
		opened = image_file_opened_by(pid, image);
	if (opened)
		name = g_file_read_link(opened, NULL);
	return name ? name : image_file_name(path);
}

/* ---- the image of a server */

static struct image_identity
identity_of_export(json_t *export)
{
	const char *device = json_string_value(json_object_get(export, "device"));
	json_t *inode = json_object_get(export, "inode");
	struct image_identity image = {.inode = (ino_t)json_integer_value(inode)};
	unsigned int numbers[2];

	if (!device || sscanf(device, "%u:%u", &numbers[0], &numbers[1]) != 2)
		return (struct image_identity){.device = 0};
	image.device = makedev(numbers[0], numbers[1]);
	/* See server_link_ask() for strings. */
	if (json_is_string(inode))
		image.inode = (ino_t)g_ascii_strtoull(json_string_value(inode), NULL, 10);
	else if (!inode)
		image.inode = (ino_t)-1;
	return image;
}

char *
image_file_of_server(json_t *status)
{
	json_t *export = server_link_export(status);
	const char *path = json_string_value(json_object_get(export, "file"));
	struct image_identity image;

	if (!path)
		return NULL;
	image = identity_of_export(export);
	if (json_is_true(json_object_get(export, "temporary"))) {
		/* The device and the inode are those of its base. */
		g_autofree char *base = image_file_served(path, &image, server_link_pid(status));

		return g_strdup_printf("temporary clone of %s", base);
	}
	return image_file_served(path, &image, server_link_pid(status));
}

bool
image_file_is_export(const struct stat *st, json_t *export)
{
	const struct image_identity image = identity_of_export(export);

	return image_file_is(st, &image);
}

static bool
are_of_one_image(json_t *export, json_t *other)
{
	const struct image_identity a = identity_of_export(export), b = identity_of_export(other);
	const char *file = json_string_value(json_object_get(export, "file"));

	/* A temporary clone has the identity of its base, and other bytes. */
	if (json_is_true(json_object_get(export, "temporary")) ||
	    json_is_true(json_object_get(other, "temporary")))
		return false;
	if (a.device != 0 || b.device != 0)
		return a.device == b.device && a.inode == b.inode;
	/* An image in a cluster has a name only. */
	return file && g_strcmp0(file, json_string_value(json_object_get(other, "file"))) == 0;
}

/* Both in bytes of the image; they are below INT64_MAX. */
static json_int_t
begin_of(json_t *export)
{
	return json_integer_value(json_object_get(export, "offset"));
}

static json_int_t
end_of(json_t *export)
{
	return begin_of(export) + json_integer_value(json_object_get(export, "size"));
}

bool
image_file_is_of_both(json_t *export, json_t *other)
{
	return are_of_one_image(export, other) && begin_of(export) < end_of(other) &&
	       begin_of(other) < end_of(export);
}
