/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who uses a device or one of its partitions.
 */
#ifndef TOOL_DEVICE_USERS_H
#define TOOL_DEVICE_USERS_H

#include "tool/device.h"

/*
 * Mounts, swap, other block devices on top (device mapper, md), processes that have it open: a text for people, "mounted at
 * /mnt", or NULL: nobody.  `sys` and `proc`: "/sys" and "/proc", or recorded trees.  Caller frees.
 */
char *
device_users(const char *sys, const char *proc, const struct device *device);

#endif
