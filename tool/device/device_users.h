/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The users of a device, which must end before it can be detached without loss.
 */
#ifndef TOOL_DEVICE_DEVICE_USERS_H
#define TOOL_DEVICE_DEVICE_USERS_H

#include "tool/device/device.h"

/*
 * Who holds the device or one of its partitions: mounts (in any mount namespace that this process
 * may look into), swap, devices that are made of it (dm, md, loop), and open files of processes
 * other than this one and the one that attached it.  `sys`, `proc`: "/sys" and "/proc", or recorded
 * trees.  Returns a text for people, "/dev/nbd0p1 is mounted on /srv; process 77 (fio) has
 * /dev/nbd0 open", that the caller frees (g_free), or NULL: nobody, as far as can be seen.
 */
char *
device_users(const char *sys, const char *proc, const struct device *device);

/*
 * The name of the process that attached the device, if it still runs and has the device open, as
 * qemu-nbd and nbd-client without netlink do; otherwise NULL.  Caller frees (g_free).
 */
char *
device_keeper(const char *proc, const struct device *device);

#endif
