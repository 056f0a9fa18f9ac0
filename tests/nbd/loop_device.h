/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Block devices and file systems for tests, made by the kernel's loop driver; root only. Nothing
 * stays: a device detaches itself when its last user closes it, and mounts are made in a mount
 * namespace that ends with the test and its server.
 */
#ifndef TESTS_NBD_LOOP_DEVICE_H
#define TESTS_NBD_LOOP_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

struct loop_device {
	char path[32]; /* "/dev/loop7" */
	int fd;        /* keeps it attached */
};

/* The reason why there are no loop devices or mounts here, or NULL. */
const char *
loop_device_absent(void);

/* Attaches a file as a device with sectors of this size (512..4096). */
void
loop_device_attach(struct loop_device *device, const char *backing, uint32_t sector_size,
		   bool read_only);
void
loop_device_detach(struct loop_device *device);

/* The number of flush requests that the device has completed. */
uint64_t
loop_device_flushes(const struct loop_device *device);

/*
 * Mounts a fresh file system at the scratch directory's "mnt" and returns that path.
 * file_system_make() runs `command` (mkfs.ext4 and its options) on the device first.
 */
const char *
file_system_make(const struct loop_device *device, const char *command, const char *type,
		 const char *options);
/* The same for a file system without a device: tmpfs, ramfs. */
const char *
file_system_mount(const char *type, const char *options);
void
file_system_unmount(void);

#endif
