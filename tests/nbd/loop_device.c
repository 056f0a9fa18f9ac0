/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/nbd/loop_device.h"

#include "common/cleanup.h"
#include "tests/nbd/scratch.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CONTROL     "/dev/loop-control"
#define ATTEMPTS    200 /* another process may take the free device first */
#define FLUSH_FIELD 15  /* in /sys/block/NAME/stat, counted from 0 */

const char *
loop_device_absent(void)
{
	int CLEANUP_CLOSE fd = -1;

	if (geteuid() != 0)
		return "needs root, for loop devices and mounts";
	fd = open(CONTROL, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return "needs loop devices, and " CONTROL " cannot be opened";
	return NULL;
}

/* Returns 0, -EBUSY if another process took the device, or -errno. */
static int
attach_free_device(int control, struct loop_device *device, const struct loop_config *config)
{
	int CLEANUP_CLOSE fd = -1;
	int number = ioctl(control, LOOP_CTL_GET_FREE);

	if (number < 0)
		return -errno;
	snprintf(device->path, sizeof(device->path), "/dev/loop%d", number);
	fd = open(device->path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (ioctl(fd, LOOP_CONFIGURE, config) != 0)
		return -errno;
	/* The device's last user may have left it read-only (blockdev --setro). */
	if (!(config->info.lo_flags & LO_FLAGS_READ_ONLY) && ioctl(fd, BLKROSET, &(int){0}) != 0)
		return -errno;
	device->fd = steal_fd(&fd);
	return 0;
}

void
loop_device_attach(struct loop_device *device, const char *backing, uint32_t sector_size,
		   bool read_only)
{
	int CLEANUP_CLOSE control = open(CONTROL, O_RDWR | O_CLOEXEC);
	int CLEANUP_CLOSE fd = open(backing, (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	struct loop_config config = {
		.fd = (uint32_t)fd,
		.block_size = sector_size,
		.info.lo_flags = LO_FLAGS_AUTOCLEAR | (read_only ? LO_FLAGS_READ_ONLY : 0),
	};
	int result = -EBUSY;

	ck_assert_msg(control >= 0 && fd >= 0, "%s: %s", backing, strerror(errno));
	for (unsigned int i = 0; i < ATTEMPTS && result == -EBUSY; i++)
		result = attach_free_device(control, device, &config);
	ck_assert_msg(result == 0, "%s: %s", device->path, strerror(-result));
}

void
loop_device_detach(struct loop_device *device)
{
	close(device->fd);
	device->fd = -1;
}

uint64_t
loop_device_flushes(const struct loop_device *device)
{
	char path[64];
	char text[512];
	char *rest = text;
	uint64_t value = 0;
	FILE *stat;

	snprintf(path, sizeof(path), "/sys/block/%s/stat", device->path + strlen("/dev/"));
	stat = fopen(path, "re");
	ck_assert_msg(stat && fgets(text, sizeof(text), stat), "%s: %s", path, strerror(errno));
	fclose(stat);
	for (unsigned int i = 0; i <= FLUSH_FIELD; i++) {
		char *end;

		value = strtoull(rest, &end, 10);
		ck_assert_msg(end != rest, "%s: no flush count (the kernel is older than 5.5)",
			      path);
		rest = end;
	}
	return value;
}

/* From here on, only this test and its server see new mounts.  A server that has the namespace of
 * its service (tests/service/run) would not: there the mounts end with the whole run. */
static const char *
mount_point(void)
{
	static bool private_mounts;
	const char *path = scratch_path("mnt");

	if (!private_mounts && !getenv("NBDLOOP_SERVICE")) {
		ck_assert_msg(unshare(CLONE_NEWNS) == 0, "unshare: %s", strerror(errno));
		ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
		private_mounts = true;
	}
	mkdir(path, 0755);
	return path;
}

const char *
file_system_make(const struct loop_device *device, const char *command, const char *type,
		 const char *options)
{
	const char *path = mount_point();
	char line[512];

	snprintf(line, sizeof(line), "PATH=$PATH:/usr/sbin:/sbin; %s %s >%s/mkfs.log 2>&1", command,
		 device->path, scratch_dir());
	ck_assert_msg(system(line) == 0, "failed: %s", line);
	ck_assert_msg(mount(device->path, path, type, 0, options) == 0, "mounting %s: %s", type,
		      strerror(errno));
	return path;
}

const char *
file_system_mount(const char *type, const char *options)
{
	const char *path = mount_point();

	ck_assert_msg(mount(type, path, type, 0, options) == 0, "mounting %s: %s", type,
		      strerror(errno));
	return path;
}

void
file_system_unmount(void)
{
	const char *path = scratch_path("mnt");

	/* A server that has just ended may still be closing its image. */
	for (unsigned int i = 0; umount(path) != 0; i++) {
		ck_assert_msg(errno == EBUSY && i < ATTEMPTS, "%s: %s", path, strerror(errno));
		nanosleep(&(struct timespec){.tv_nsec = 10000000L}, NULL);
	}
}
