/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block device of the nbd driver, as /sys tells about it.
 */
#ifndef TOOL_DEVICE_H
#define TOOL_DEVICE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct device {
	unsigned int index;      /* N of /dev/nbdN */
	char *name;              /* "nbd0" */
	uint64_t size;           /* bytes */
	bool read_only;
	unsigned int block_size; /* bytes */
	pid_t pid;               /* who attached it, as the kernel tells; 0: it is not attached */
	char *backend;           /* identifier, or NULL */
	GPtrArray *partitions;   /* names, "nbd0p1" */
};

/* All of them, struct device *, by index.  `sys`: "/sys", or a recorded tree. */
GPtrArray *
devices_read(const char *sys, GError **error);

/* NULL, with an error that is ENOENT when there is no such device. */
struct device *
device_read(const char *sys, const char *name, GError **error);
void
device_free(struct device *device);

static inline void
device_cleanup(struct device **device)
{
	if (*device)
		device_free(*device);
}

/* struct device *DEVICE_CLEANUP device = NULL; */
#define DEVICE_CLEANUP __attribute__((cleanup(device_cleanup)))

/* "nbd0" from "nbd0" or "/dev/nbd0", as somebody named it; NULL with an error if that is no nbd device's name. */
char *
device_name(const char *text, GError **error);

#endif
