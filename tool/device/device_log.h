/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the kernel's log tells of a device's last connection.  Nothing else does when nobody was
 * there to see it end.
 */
#ifndef TOOL_DEVICE_DEVICE_LOG_H
#define TOOL_DEVICE_DEVICE_LOG_H

#include <glib.h>

enum device_loss {
	DEVICE_LOSS_UNKNOWN, /* the log may not be read, or has lost that line */
	DEVICE_LOST,         /* requests wait for another connection */
	DEVICE_ENDED,        /* they have waited too long, or it was detached: all fail */
};

/* *when: of DEVICE_LOST, as g_get_monotonic_time() counts. */
enum device_loss
device_loss_read(const char *name, gint64 *when);

#endif
