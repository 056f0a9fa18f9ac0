/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device of the kernel's nbd driver, as /sys shows it: a copy of its facts at one moment. Nothing
 * here changes a device, asks a server, or needs root.
 */
#ifndef TOOL_DEVICE_DEVICE_H
#define TOOL_DEVICE_DEVICE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct device {
	unsigned int index; /* N of /dev/nbdN */
	char *name;         /* "nbd0" */
	dev_t number;       /* major and minor */
	uint64_t size;      /* bytes */
	bool read_only;
	bool scans_partitions;   /* the kernel looks for a partition table when it is attached */
	unsigned int block_size; /* logical, bytes */
	pid_t pid; /* the process that attached it, as the kernel tells (it may have ended since);
		      0: it is not attached */
	char *backend;         /* the identifier that it was attached with, or NULL (none, or Linux
				* before 5.14);	 nbd-client's may be empty */
	GPtrArray *partitions; /* char *: their names, "nbd0p1", by number */
	GArray *partition_numbers; /* dev_t, of each: major and minor; 0: it is just going */
};

/*
 * All devices by their index, those that nothing is attached to included; none where the driver
 * isn't loaded. `sys`: "/sys", or a recorded tree.  The array frees its devices
 * (g_ptr_array_unref).  NULL: *error is set.
 */
GPtrArray *
devices_read(const char *sys, GError **error);

/* "nbd0" from nbd0 or /dev/nbd0, as people write it.  Caller frees (g_free).  NULL: *error is set
 * (tool/failure.h) to EINVAL, that is no name of one. */
char *
device_name(const char *text, GError **error);

/*
 * One of them; `name` as people write it: nbd0 or /dev/nbd0.  Caller frees (device_free).  NULL:
 * *error is set (tool/failure.h): ENOENT, there is no such device; EINVAL, that is no name of one;
 * others.
 */
struct device *
device_read(const char *sys, const char *name, GError **error);

/* The name of what has this number of the device and its partitions; or NULL.  Borrowed. */
const char *
device_part_numbered(const struct device *device, dev_t number);

/* Major and minor ("43:0") of the device or partition with this directory in /sys; 0: *error is
 * set, ENOENT if there is none. */
dev_t
device_number_read(const char *directory, GError **error);

/* NULL is fine. */
void
device_free(struct device *device);

static inline void
device_cleanup(struct device **device)
{
	device_free(*device);
}

/* struct device *DEVICE_CLEANUP device = NULL; */
#define DEVICE_CLEANUP __attribute__((cleanup(device_cleanup)))

#endif
