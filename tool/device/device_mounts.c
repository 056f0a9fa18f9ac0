/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/device_mounts.h"

#include "tool/system_file.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

const char *
device_part_at(const struct device *device, const char *path)
{
	const char *name = path + strlen("/dev/");

	if (!g_str_has_prefix(path, "/dev/"))
		return NULL;
	if (strcmp(name, device->name) == 0)
		return device->name;
	for (guint i = 0; i < device->partitions->len; i++) {
		if (strcmp(name, device->partitions->pdata[i]) == 0)
			return device->partitions->pdata[i];
	}
	return NULL;
}

/* File systems such as btrfs have their own device numbers there, but give the device's path. */
static const char *
part_of_source(const struct device *device, char *const *fields)
{
	guint i = 6;

	while (fields[i] && strcmp(fields[i], "-") != 0)
		i++;
	if (!fields[i] || !fields[i + 1] || !fields[i + 2])
		return NULL;
	return device_part_at(device, fields[i + 2]);
}

static const char *
part_of_mount(const struct device *device, char *const *fields)
{
	unsigned int numbers[2];
	const char *part = NULL;

	if (sscanf(fields[2], "%u:%u", &numbers[0], &numbers[1]) == 2)
		part = device_part_numbered(device, makedev(numbers[0], numbers[1]));
	return part ? part : part_of_source(device, fields);
}

static void
mount_free(void *data)
{
	struct device_mount *mount = data;

	g_free(mount->where);
	g_free(mount);
}

GPtrArray *
device_mounts(const struct device *device, const char *process)
{
	g_autofree char *text = system_file_read("/proc/%s/mountinfo", process);
	g_auto(GStrv) lines = g_strsplit(text ? text : "", "\n", -1);
	GPtrArray *mounts = g_ptr_array_new_with_free_func(mount_free);

	for (char **line = lines; *line; line++) {
		g_auto(GStrv) fields = g_strsplit(*line, " ", -1);
		const char *part = g_strv_length(fields) < 9 ? NULL : part_of_mount(device, fields);
		struct device_mount *mount;

		if (!part)
			continue;
		mount = g_new(struct device_mount, 1);
		mount->part = part;
		mount->where = g_strcompress(fields[4]); /* a blank is \040 there */
		g_ptr_array_add(mounts, mount);
	}
	return mounts;
}
