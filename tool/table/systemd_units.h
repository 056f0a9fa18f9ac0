/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dependencies of the table's devices for systemd: what each device needs, and what needs it.
 * The unit of a device is the template nbdloop@.service.
 */
#ifndef TOOL_TABLE_SYSTEMD_UNITS_H
#define TOOL_TABLE_SYSTEMD_UNITS_H

#include "tool/table/table.h"

/* Names as systemd-escape(1) makes them: "/dev/nbd0" becomes "dev-nbd0".  Caller frees (g_free). */
char *
systemd_units_escape_path(const char *path);

/*
 * Writes below `directory`, which exists, for the unit of a device ("nbdloop@nbd0.service"):
 *
 *	nbdloop@nbd0.service.d/50-nbdloop.tab.conf
 *		the device comes after what holds the image, or after the network
 *	dev-nbd0.device.requires/nbdloop@nbd0.service
 *		what waits for the device gets it
 *	local-fs.target.wants/nbdloop@nbd0.service
 *		at boot, unless it is "noauto" (for a URI: remote-fs.target)
 */
bool
systemd_units_write(const struct table_entry *entry, const char *directory, GError **error);

#endif
