/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detaches a device, as `nbdloop detach' does.
 */
#ifndef TOOL_VERB_DETACH_H
#define TOOL_VERB_DETACH_H

#include "tool/device/device.h"
#include "tool/device/nbd_driver.h"

/*
 * Detaches the device `name` ("nbd0"), and returns when it is gone.  EBUSY: the device is in use,
 * and stays; with `lazy`, the kernel detaches it when its last user closes it.  ENXIO: it isn't
 * attached.
 */
bool
detach_device(struct nbd_driver *driver, const char *name, bool lazy, GError **error);

/* Whether nbdloop attached the device. */
bool
detach_is_ours(const struct device *device);

#endif
