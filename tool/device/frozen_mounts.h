/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mounted file systems of a device, frozen for a moment (FIFREEZE): each has written all that
 * it has, and writes nothing.  A child process freezes and thaws them, so that they are thawed
 * however this process ends, and in any case after ten seconds: whatever writes to them waits
 * meanwhile, which may be what this process waits for.
 */
#ifndef TOOL_DEVICE_FROZEN_MOUNTS_H
#define TOOL_DEVICE_FROZEN_MOUNTS_H

#include "tool/device/device.h"

#include <stdbool.h>

struct frozen_mounts {
	pid_t child;
	int hold;    /* our end of a pipe: when it is closed, the child thaws */
	GArray *fds; /* int: a file of each file system */
};

/* Freezes the file systems that are mounted, in the mount namespace of this process, from the
 * device or its partitions; there may be none.  False: *error is set, and nothing is frozen. */
bool
frozen_mounts_begin(struct frozen_mounts *frozen, const struct device *device, GError **error);

/* Thaws them.  False: *error is set, since they were thawed too early. */
bool
frozen_mounts_end(struct frozen_mounts *frozen, GError **error);

#endif
