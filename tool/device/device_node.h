/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The nodes in /dev through which a device and its partitions are used.  The kernel (devtmpfs) or
 * udev usually makes them; in a container there may be neither.
 */
#ifndef TOOL_DEVICE_DEVICE_NODE_H
#define TOOL_DEVICE_DEVICE_NODE_H

#include "tool/device/device.h"

/*
 * Waits for the device's node, makes it if none appears, and opens it for reading, which makes the
 * kernel look for partitions.  `scan`: has it look once more; it is an error if the driver allows
 * no partitions.  Then waits for the partitions' nodes in the same way.  *size: the device's size,
 * bytes.
 */
bool
device_node_settle(const char *name, bool scan, uint64_t *size, GError **error);

/* Opens /dev/NAME with these flags; makes the node if there is none.  A descriptor, or -1 with an
 * error. */
int
device_node_open(const char *name, int flags, GError **error);

/* Removes the nodes of partitions that the kernel no longer has, if udev or devtmpfs did not. */
void
device_node_forget(const struct device *device);

#endif
