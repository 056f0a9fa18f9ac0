/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A direct read from a device with a time limit, as a sign that the device works. The page cache
 * has no part in it.
 */
#ifndef TOOL_DEVICE_DIRECT_READ_H
#define TOOL_DEVICE_DIRECT_READ_H

#include "tool/device/device.h"

/*
 * Reads the first block, and waits for it until `end` (g_get_monotonic_time()). *us: how long the
 * read took, microseconds. ETIMEDOUT: there was no answer in time. The process that reads then
 * stays until the device answers, because nothing can end a read in the kernel.
 */
bool
direct_read_first(const struct device *device, gint64 end, gint64 *us, GError **error);

#endif
