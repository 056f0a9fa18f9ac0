/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device.h"

#include "tool/failure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The number in a file of /sys; 0 where there is no such file. */
static uint64_t
read_number(const char *directory, const char *name)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);
	g_autofree char *text = NULL;

	return g_file_get_contents(path, &text, NULL, NULL) ? g_ascii_strtoull(text, NULL, 10) : 0;
}

static char *
read_line(const char *directory, const char *name)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);
	char *text = NULL;

	return g_file_get_contents(path, &text, NULL, NULL) ? g_strchomp(text) : NULL;
}

static int
compare_names(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

static GPtrArray *
read_partitions(const char *directory, const char *name)
{
	GPtrArray *partitions = g_ptr_array_new_with_free_func(g_free);
	g_autofree char *prefix = g_strconcat(name, "p", NULL);
	g_autoptr(GDir) entries = g_dir_open(directory, 0, NULL);
	const char *entry;

	while (entries && (entry = g_dir_read_name(entries))) {
		if (g_str_has_prefix(entry, prefix))
			g_ptr_array_add(partitions, g_strdup(entry));
	}
	g_ptr_array_sort(partitions, compare_names);
	return partitions;
}

/* The number in "nbd12", or -1. */
static int64_t
index_of(const char *name)
{
	uint64_t index;
	char *end;

	if (!g_str_has_prefix(name, "nbd") || !g_ascii_isdigit(name[3]))
		return -1;
	index = g_ascii_strtoull(name + 3, &end, 10);
	return *end || index > (1 << 20) || (name[3] == '0' && name[4]) ? -1 : (int64_t)index;
}

struct device *
device_read(const char *sys, const char *name, GError **error)
{
	g_autofree char *directory = g_build_filename(sys, "block", name, NULL);
	struct device *device;

	if (index_of(name) < 0 || !g_file_test(directory, G_FILE_TEST_IS_DIR)) {
		failure(error, ENOENT, "there is no device /dev/%s", name);
		return NULL;
	}
	device = g_new(struct device, 1);
	*device = (struct device){
		.index = (unsigned int)index_of(name),
		.name = g_strdup(name),
		.size = read_number(directory, "size") * 512,
		.read_only = read_number(directory, "ro") != 0,
		.block_size = (unsigned int)read_number(directory, "queue/logical_block_size"),
		.pid = (pid_t)read_number(directory, "pid"),
		.backend = read_line(directory, "backend"),
		.partitions = read_partitions(directory, name),
	};
	return device;
}

void
device_free(struct device *device)
{
	g_free(device->name);
	g_free(device->backend);
	g_ptr_array_unref(device->partitions);
	g_free(device);
}

static int
compare_devices(const void *a, const void *b)
{
	const struct device *left = *(struct device *const *)a, *right = *(struct device *const *)b;

	return (left->index > right->index) - (left->index < right->index);
}

GPtrArray *
devices_read(const char *sys, GError **error)
{
	g_autoptr(GPtrArray) devices = g_ptr_array_new_with_free_func((GDestroyNotify)device_free);
	g_autofree char *directory = g_build_filename(sys, "block", NULL);
	g_autoptr(GError) why = NULL;
	g_autoptr(GDir) entries = g_dir_open(directory, 0, &why);
	const char *entry;

	if (!entries) {
		failure(error, EIO, "%s", why->message);
		return NULL;
	}
	while ((entry = g_dir_read_name(entries))) {
		struct device *device = index_of(entry) >= 0 ? device_read(sys, entry, NULL) : NULL;

		if (device)
			g_ptr_array_add(devices, device);
	}
	g_ptr_array_sort(devices, compare_devices);
	return g_steal_pointer(&devices);
}

char *
device_name(const char *text, GError **error)
{
	const char *name = g_str_has_prefix(text, "/dev/") ? text + strlen("/dev/") : text;

	if (index_of(name) >= 0)
		return g_strdup(name);
	failure(error, EINVAL, "%s is no device of the nbd driver: they are called /dev/nbd0, /dev/nbd1, ...%s", text,
		strchr(name, 'p') && g_str_has_prefix(name, "nbd") ? "; name the whole device, not a partition" : "");
	return NULL;
}
