/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a device is attached to, and by which process: the error that a user gets who wants it.
 */
#ifndef TOOL_DEVICE_DEVICE_OWNER_H
#define TOOL_DEVICE_DEVICE_OWNER_H

#include "tool/device/device.h"

/* Whether nothing is attached to a device (`name` as people write it), which needn't be there yet;
 * else an error that says what it is. */
bool
device_owner_none(const char *name, GError **error);

/* An error that says it of a device to which something is attached: EBUSY.  Returns false. */
bool
device_owner_explain(const struct device *device, GError **error);

#endif
