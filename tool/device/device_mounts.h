/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mount points of a device and its partitions.
 */
#ifndef TOOL_DEVICE_DEVICE_MOUNTS_H
#define TOOL_DEVICE_DEVICE_MOUNTS_H

#include "tool/device/device.h"

struct device_mount {
	const char *part; /* the name of the device or partition; borrowed from the device */
	char *where;
};

/* The mounts that a process sees ("self", or its ID), in order; none if it can't be looked into.
 * Caller frees (g_ptr_array_unref). */
GPtrArray *
device_mounts(const struct device *device, const char *process);

/* The name of the device or partition that a path such as /dev/nbd0p1 names, or NULL.  Borrowed. */
const char *
device_part_at(const struct device *device, const char *path);

#endif
