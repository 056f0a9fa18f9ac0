/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The users of a device, which must end before it can be detached without loss, and what it is
 * attached to.
 */
#ifndef TOOL_DEVICE_DEVICE_USERS_H
#define TOOL_DEVICE_DEVICE_USERS_H

#include "tool/device/device.h"

/*
 * The users of the device and its partitions: mounts (in any mount namespace that this process may
 * look into), swap, devices that are made of it (dm, md, loop), and processes that have it open,
 * except this one and the one that attached it.  Returns a text for people, such as "/dev/nbd0p1
 * is mounted on /srv; process 77 (fio) has /dev/nbd0 open", that the caller frees (g_free); NULL:
 * none, as far as this process can see.
 */
char *
device_users(const struct device *device);

/*
 * The same for a caller that has the device open exclusively (O_EXCL), so that no mount, swap, dm
 * or md device can be made of it: only loop devices and processes that have it open are looked for.
 */
char *
device_openers(const struct device *device);

/*
 * The name of the process that attached the device, if it still runs and has the device open, as
 * qemu-nbd and nbd-client without netlink do; otherwise NULL.  Caller frees (g_free).
 */
char *
device_keeper(const struct device *device);

/* An error, EBUSY, that says what is attached to a device, and by which process.  Returns false. */
bool
device_explain_attached(const struct device *device, GError **error);

/* Whether nothing is attached to a device (`name` as people write it), which need not exist yet;
 * else that error. */
bool
device_check_free(const char *name, GError **error);

#endif
