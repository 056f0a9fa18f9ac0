/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/file/obstacle.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <mntent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define DEVICE_IS_READ_ONLY "the device is read-only; blockdev --setrw may end that"

/* The option of an ext4 that an error has made read-only, from Linux 6.15 on: it stays "rw". */
#define FAILED "emergency_ro"

/* ---- why it was not opened for writing */

/* Returns whether the kernel's rules about owner, mode, attributes and mounts let this process
 * write to the file. Security modules that judge by path, and sandboxes, have no say here. */
static bool
rules_allow_writing(const struct backing *backing)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", backing->fd);
	return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

static void
explain_permission(struct backing *backing)
{
	struct stat st;

	if (rules_allow_writing(backing))
		snprintf(backing->read_only_reason, REASON_MAX,
			 "its mode would allow to write, but a sandbox or a security module "
			 "(AppArmor, SELinux) forbids it");
	else if (fstat(backing->fd, &st) == 0)
		snprintf(backing->read_only_reason, REASON_MAX,
			 "it belongs to user %u, group %u, with mode %04o, and this process is "
			 "user %u, group %u",
			 st.st_uid, st.st_gid, st.st_mode & 07777, geteuid(), getegid());
}

/* Returns the number by which the kernel's list of mounts has that of the file, or -1. */
static int
mount_id(int fd)
{
	char path[64], line[128];
	int id = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	if (!f)
		return -1;
	while (id < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "mnt_id: %d", &id) != 1)
			id = -1;
	fclose(f);
	return id;
}

/* Returns the options of the whole file system, or NULL; the caller frees them. A line of mountinfo
 * is "36 35 8:1 / /mnt ro,noatime - ext4 /dev/sda1 rw,discard". */
static char *
file_system_options(const struct backing *backing)
{
	char *CLEANUP_FREE line = NULL, *options = NULL;
	int wanted = mount_id(backing->fd), id;
	const char *super;
	size_t room = 0;
	FILE *f = wanted < 0 ? NULL : fopen("/proc/self/mountinfo", "re");

	if (!f)
		return NULL;
	while (!options && getline(&line, &room, f) > 0) {
		super = strstr(line, " - ");
		if (super && sscanf(line, "%d", &id) == 1 && id == wanted &&
		    sscanf(super, " - %*s %*s %ms", &options) != 1)
			break;
	}
	fclose(f);
	return options;
}

static bool
has_option(char *options, const char *option)
{
	return options && hasmntopt(&(struct mntent){.mnt_opts = options}, option);
}

/* Says why the file's mount is read-only. */
static const char *
explain_mount(const struct backing *backing)
{
	char *CLEANUP_FREE options = file_system_options(backing);

	if (has_option(options, FAILED))
		return "its file system is read-only after an error; see the kernel's log";
	if (has_option(options, "rw"))
		return "it is mounted read-only for this process; a service needs "
		       "ReadWritePaths= in its unit";
	return "its file system is mounted read-only";
}

/* Returns the attributes that chattr(1) sets. */
static int
obstacle_attributes(const struct backing *backing)
{
	int flags = 0;

	return ioctl(backing->fd, FS_IOC_GETFLAGS, &flags) < 0 ? 0 : flags;
}

static void
explain_attribute(struct backing *backing)
{
	int flags = backing->block_device ? 0 : obstacle_attributes(backing);

	if (flags & FS_IMMUTABLE_FL)
		snprintf(backing->read_only_reason, REASON_MAX,
			 "it is immutable; chattr -i ends that");
	else if (flags & FS_APPEND_FL)
		snprintf(backing->read_only_reason, REASON_MAX,
			 "it can only be appended to; chattr -a ends that");
	else if (backing->block_device)
		snprintf(backing->read_only_reason, REASON_MAX,
			 "the device is forbidden; a service needs DeviceAllow= in its unit");
}

void
obstacle_explain(struct backing *backing, int err)
{
	snprintf(backing->read_only_reason, REASON_MAX, "%s", strerror(-err));
	if (err == 0)
		snprintf(backing->read_only_reason, REASON_MAX, DEVICE_IS_READ_ONLY);
	else if (err == -EACCES)
		explain_permission(backing);
	else if (err == -EPERM)
		explain_attribute(backing);
	else if (err == -EROFS)
		snprintf(backing->read_only_reason, REASON_MAX, "%s", explain_mount(backing));
	/* If the rules had allowed it already, they will not tell when the obstacle is gone. */
	backing->obstacle_shows = !rules_allow_writing(backing) || err == 0;
}

/* ---- afterwards */

static bool
device_is_read_only(const struct backing *backing)
{
	int read_only;

	return backing->block_device && ioctl(backing->fd, BLKROGET, &read_only) == 0 && read_only;
}

bool
obstacle_is_gone(const struct backing *backing)
{
	return backing->obstacle_shows && rules_allow_writing(backing) &&
	       !device_is_read_only(backing);
}

static bool
file_system_is_read_only(const struct backing *backing)
{
	char *CLEANUP_FREE options = NULL;
	struct statvfs facts;

	if (fstatvfs(backing->fd, &facts) == 0 && (facts.f_flag & ST_RDONLY))
		return true;
	options = file_system_options(backing);
	return has_option(options, FAILED);
}

bool
obstacle_find(const struct backing *backing, char reason[REASON_MAX])
{
	int r = 0;

	/* Asks the kernel to allocate a byte beyond the largest possible file. The kernel always
	 * refuses that, but reports any other reason first. This finds a swap file of any name,
	 * also in another container, and a file that was made immutable. */
	if (!backing->block_device && fallocate(backing->fd, FALLOC_FL_KEEP_SIZE, INT64_MAX, 1) < 0)
		r = -errno;
	reason[0] = '\0';
	if (device_is_read_only(backing))
		snprintf(reason, REASON_MAX, DEVICE_IS_READ_ONLY);
	else if (r == -ETXTBSY)
		snprintf(reason, REASON_MAX, "it is swap space; swapoff ends that");
	else if (r == -EPERM && (obstacle_attributes(backing) & FS_IMMUTABLE_FL))
		snprintf(reason, REASON_MAX, "it is immutable; chattr -i ends that");
	else if (!backing->block_device && file_system_is_read_only(backing))
		snprintf(reason, REASON_MAX, "%s", explain_mount(backing));
	return reason[0] != '\0';
}
