/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/device_node.h"

#include "tool/failure.h"
#include "tool/system_file.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	/* udev usually makes nodes within milliseconds; after this time, nothing here makes them.
	 */
	WAIT_STEPS = 20,
	STEP_US = 10000,
};

static bool
node_is_there(const char *path, dev_t number)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISBLK(st.st_mode) && st.st_rdev == number;
}

static bool
make_node(const char *node, dev_t number, GError **error)
{
	g_autofree char *path = g_build_filename("/dev", node, NULL);
	struct stat st;

	for (int i = 0; i < WAIT_STEPS && !node_is_there(path, number); i++)
		g_usleep(STEP_US);
	if (node_is_there(path, number))
		return true;
	/* The node may be left from another device.  A file of another kind is never removed. */
	if (lstat(path, &st) == 0 && S_ISBLK(st.st_mode))
		unlink(path);
	if (mknod(path, S_IFBLK | 0660, number) < 0 &&
	    !(errno == EEXIST && node_is_there(path, number)))
		return failure_errno(error, errno, "there is no %s, and it can't be made", path);
	return true;
}

int
device_node_open(const char *name, int flags, GError **error)
{
	g_autofree char *path = g_build_filename("/dev", name, NULL);
	const dev_t number = device_number_read(name, NULL, NULL);
	int fd;

	if (!number) {
		failure(error, ENOENT, "the kernel no longer has a device %s", name);
		return -1;
	}
	if (!make_node(name, number, error))
		return -1;
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		failure_errno(error, errno, "%s can't be opened", path);
	return fd;
}

static bool
scan_partitions(int fd, const char *name, GError **error)
{
	/* The number of minor numbers that the kernel reserves for the device. */
	g_autofree char *range = system_file_read("/sys/block/%s/ext_range", name);

	if (range && g_ascii_strtoull(range, NULL, 10) <= 1)
		return failure(
			error, ENOTSUP,
			"the nbd driver was loaded so that its devices have no partitions (max_part=0): "
			"load it again with modprobe nbd max_part=16");
	/* Opening the device has already done that; the user asks for a second scan. */
	if (ioctl(fd, BLKRRPART) < 0 && errno != EBUSY)
		return failure_errno(error, errno, "the partitions of /dev/%s can't be read", name);
	return true;
}

bool
device_node_settle(const char *name, bool scan, uint64_t *size, GError **error)
{
	int CLEANUP_CLOSE fd = device_node_open(name, O_RDONLY, error);
	struct device *DEVICE_CLEANUP device = NULL;

	if (fd < 0 || (scan && !scan_partitions(fd, name, error)))
		return false;
	if (ioctl(fd, BLKGETSIZE64, size) < 0)
		return failure_errno(error, errno, "/dev/%s doesn't tell its size", name);
	device = device_read(name, error);
	for (guint i = 0; device && i < device->partitions->len; i++) {
		const char *partition = g_ptr_array_index(device->partitions, i);
		const dev_t number = device_number_read(name, partition, NULL);

		/* While another program makes the kernel read the table again, the partition is
		 * gone for a moment; that program waits for its node. */
		if (number && !make_node(partition, number, error))
			return false;
	}
	return device != NULL;
}

void
device_node_forget(const struct device *device)
{
	for (guint i = 0; i < device->partitions->len; i++) {
		const char *partition = g_ptr_array_index(device->partitions, i);
		g_autofree char *path = g_build_filename("/dev", partition, NULL);
		struct stat st;

		if (!device_number_read(device->name, partition, NULL) && lstat(path, &st) == 0 &&
		    S_ISBLK(st.st_mode))
			unlink(path);
	}
}
