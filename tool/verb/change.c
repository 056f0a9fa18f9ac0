/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop change: replaces the image of a read-only device with one of the same size, as
 * LOOP_CHANGE_FD does.
 */
#include "tool/device/device_node.h"
#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/verb/our_device.h"
#include "tool/verb/verb.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

/* Drops the cached data of the old image, and has the kernel read the new partition table, if no
 * old partition is in use. */
static bool
forget_old_image(const char *name, GError **error)
{
	int CLEANUP_CLOSE fd = device_node_open(name, O_RDONLY, error);
	uint64_t size;

	if (fd < 0)
		return false;
	if (ioctl(fd, BLKFLSBUF) < 0)
		return failure_errno(error, errno, "/dev/%s: the cache can't be emptied", name);
	if (ioctl(fd, BLKRRPART) < 0 && errno != EBUSY && errno != EINVAL)
		return failure_errno(error, errno, "the partitions of /dev/%s can't be read", name);
	return device_node_settle(name, false, &size, error);
}

static bool
run_change(const struct verb_call *call, GError **error)
{
	struct our_device OUR_DEVICE_CLEANUP ours = {.device = NULL};
	g_autofree char *place = NULL, *request = NULL;

	if (!our_device_find_served(&ours, call->operands[0], error))
		return false;
	place = image_file_find(call->operands[1], error);
	request = g_strconcat("image ", place, NULL);
	return place && our_device_ask_guard(&ours, request, error) &&
	       forget_old_image(ours.device->name, error);
}

const struct verb verb_change = {
	.name = "change",
	.help = "replace the image of a read-only device with one of the same size",
	.synopsis = "DEVICE IMAGE",
	.summary =
		"Replaces the image of a read-only device, mounted or not, with another one of the same size.",
	.least = 2,
	.most = 2,
	.run = run_change,
};
