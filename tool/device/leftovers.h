/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that are left in /run/nbdloop when a guard and its server were killed.
 */
#ifndef TOOL_DEVICE_LEFTOVERS_H
#define TOOL_DEVICE_LEFTOVERS_H

#include <glib.h>

/*
 * Removes from `directory` the sockets of guards that have ended, unless somebody listens on them
 * still, or a device has one for its server (`attached`: struct device *): there, a new one is
 * expected.
 */
void
leftovers_remove(const char *directory, GPtrArray *attached);

#endif
