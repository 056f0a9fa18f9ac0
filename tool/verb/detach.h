/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detaching a device, as `nbdloop detach' does it.
 */
#ifndef TOOL_VERB_DETACH_H
#define TOOL_VERB_DETACH_H

#include "tool/device/device.h"
#include "tool/device/nbd_driver.h"

/*
 * Detaches the device `name` ("nbd0"), and returns when it is gone.  EBUSY: somebody uses it, and
 * it stays; `lazy`: the kernel ends it then when nobody has it open any more.  ENXIO: it isn't
 * attached.
 */
bool
detach_device(struct nbd_driver *driver, const char *name, bool lazy, GError **error);

/* Whether nbdloop has attached it. */
bool
detach_is_ours(const struct device *device);

#endif
