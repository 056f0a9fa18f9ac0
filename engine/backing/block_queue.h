/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads from sysfs the properties of the queue of a block device.
 */
#ifndef ENGINE_BACKING_BLOCK_QUEUE_H
#define ENGINE_BACKING_BLOCK_QUEUE_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Reads a whole number from /sys/dev/block/MAJOR:MINOR/queue/NAME into *value. A partition has no
 * queue of its own, so the function reads the queue of its disk. Returns 0, or -ENOENT if the
 * kernel has no such number (the device may be one that only a file system knows).
 */
int
block_queue_read(dev_t device, const char *name, uint64_t *value);

#endif
