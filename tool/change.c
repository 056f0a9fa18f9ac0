/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop change: another image of the same size takes the place of a read-only device's, as with LOOP_CHANGE_FD.
 */
#include "tool/device_node.h"
#include "tool/failure.h"
#include "tool/guard_link.h"
#include "tool/image_file.h"
#include "tool/our_device.h"
#include "tool/verb.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>

static const struct option_row rows[] = {{.name = NULL}};

static const struct verb_usage usage = {
	.synopsis = "DEVICE IMAGE",
	.summary = "Replaces the image of a read-only device, mounted or not, with another one of the same size.",
	.rows = rows,
	.least = 2,
	.most = 2,
};

/* What was read of the old image, so that it is read again; and the new one's partitions, if no old one is in use. */
static bool
forget_old_image(const char *name, GError **error)
{
	int CLEANUP_CLOSE fd = device_node_open(name, O_RDONLY, error);
	uint64_t size;

	if (fd < 0)
		return false;
	if (ioctl(fd, BLKFLSBUF) < 0)
		return failure(error, errno, "/dev/%s: the cache can't be emptied: %s", name, g_strerror(errno));
	if (ioctl(fd, BLKRRPART) < 0 && errno != EBUSY && errno != EINVAL)
		return failure(error, errno, "the partitions of /dev/%s can't be read: %s", name, g_strerror(errno));
	return device_node_settle(name, false, &size, error);
}

static bool
change(const struct our_device *ours, const char *image, GError **error)
{
	g_autofree char *place = image_file_find(image, error);
	g_autofree char *request = place ? g_strconcat("image ", place, NULL) : NULL;

	return place && our_device_ask_guard(ours, request, error) && forget_old_image(ours->device->name, error);
}

int
verb_change(int argc, char **argv)
{
	struct our_device OUR_DEVICE_CLEANUP ours = {.device = NULL};
	g_autoptr(GError) error = NULL;
	enum verb_parsed parsed;
	char **operands;
	int count;

	parsed = verb_parse(&usage, NULL, argc, argv, &operands, &count);
	if (parsed != VERB_PARSED)
		return verb_exit_status(parsed);
	if (our_device_find_served(&ours, operands[0], &error) && change(&ours, operands[1], &error))
		return EXIT_SUCCESS;
	log_error("%s", error->message);
	return EXIT_FAILURE;
}
