/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device of the kernel's nbd driver: a copy of the facts that /sys shows at one moment. Nothing
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
	pid_t pid;     /* the process that attached it, as the kernel reports it (it may have ended
			  since); 0: not attached */
	char *backend; /* the identifier that it was attached with; NULL: none, or Linux
			  before 5.14; nbd-client's may be empty */
	GPtrArray *partitions;     /* char *: their names, "nbd0p1", by number */
	GArray *partition_numbers; /* dev_t of each: major and minor; 0: it is just being removed */
};

/*
 * All attached devices by their index; none if the driver isn't loaded.  The array frees
 * its devices (g_ptr_array_unref).  NULL: *error is set.
 */
GPtrArray *
devices_read_attached(GError **error);

/* The same in a fraction of the time: of each device only the name, index, pid and backend are
 * read, and the other facts are 0. */
GPtrArray *
devices_identify_attached(GError **error);

/* "nbd0" from nbd0 or /dev/nbd0, as people write it.  Caller frees (g_free).  NULL: *error is set
 * (tool/failure.h) to EINVAL, it is no name of a device. */
char *
device_name(const char *text, GError **error);

/*
 * One device; `name` as people write it: nbd0 or /dev/nbd0.  Caller frees (device_free).  NULL:
 * *error is set (tool/failure.h): ENOENT, there is no such device; EINVAL, it is no name of a
 * device; others.
 */
struct device *
device_read(const char *name, GError **error);

/* The same, and ENXIO: nothing is attached to it. */
struct device *
device_read_attached(const char *name, GError **error);

/* The name of the device or partition that has this number, or NULL.  Borrowed. */
const char *
device_part_numbered(const struct device *device, dev_t number);

/* Major and minor ("43:0") of a device, or of its partition unless that is NULL; 0: *error is set,
 * ENOENT if there is none. */
dev_t
device_number_read(const char *name, const char *partition, GError **error);

/* NULL is fine. */
void
device_free(struct device *device);

static inline void
device_cleanup(struct device **device)
{
	device_free(*device);
}

#define DEVICE_CLEANUP __attribute__((cleanup(device_cleanup)))

#endif
