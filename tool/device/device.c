/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/device.h"

#include "tool/failure.h"
#include "tool/system_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

/* The unit of the file "size", whatever the device's block size. */
#define SECTOR 512

/* N of "nbdN", without leading zeroes, as the kernel writes it. */
static bool
parse_index(const char *name, unsigned int *index)
{
	guint64 number;

	if (!g_str_has_prefix(name, "nbd") || (name[3] == '0' && name[4]))
		return false;
	/* The kernel's devices have at most 20 bits of minor number. */
	if (!g_ascii_string_to_unsigned(name + 3, 10, 0, 1 << 20, &number, NULL))
		return false;
	*index = (unsigned int)number;
	return true;
}

/* ---- files of a device's directory */

/* NULL: *error is set, to ENOENT if there is no such file. */
static char *
device_read_text(const char *name, const char *file, GError **error)
{
	g_autofree char *path = system_file_path("/sys/block/%s/%s", name, file);
	char *text = system_file_read_path(path);

	/* ENODEV: the file was removed between open() and read(). */
	if (!text && error)
		failure_errno(error, errno == ENODEV ? ENOENT : errno, "%s", path);
	return text;
}

/* The number in a file; 0 and *error if there is none. */
static guint64
device_read_number(const char *name, const char *file, guint64 max, GError **error)
{
	g_autofree char *text = device_read_text(name, file, error);
	guint64 number = 0;

	if (!text)
		return 0;
	if (!g_ascii_string_to_unsigned(text, 10, 0, max, &number, NULL))
		failure(error, EINVAL, "/sys/block/%s/%s: \"%s\" is not a number", name, file,
			text);
	return number;
}

dev_t
device_number_read(const char *name, const char *partition, GError **error)
{
	g_autofree char *file = g_build_filename(partition ? partition : "", "dev", NULL);
	g_autofree char *text = device_read_text(name, file, error);
	unsigned int numbers[2];

	if (!text)
		return 0;
	if (sscanf(text, "%u:%u", &numbers[0], &numbers[1]) != 2) {
		failure(error, EINVAL, "/sys/block/%s/%s: \"%s\" is no device number", name, file,
			text);
		return 0;
	}
	return makedev(numbers[0], numbers[1]);
}

static int
compare_partitions(gconstpointer a, gconstpointer b)
{
	const char *const *one = a, *const *other = b;

	return strverscmp(*one, *other);
}

static void
read_partitions(struct device *device)
{
	g_autofree char *directory = system_file_path("/sys/block/%s", device->name);
	g_autoptr(GDir) entries = g_dir_open(directory, 0, NULL);
	const char *name;

	while (entries && (name = g_dir_read_name(entries)) != NULL) {
		g_autofree char *mark = g_build_filename(directory, name, "partition", NULL);

		if (g_str_has_prefix(name, device->name) && g_file_test(mark, G_FILE_TEST_EXISTS))
			g_ptr_array_add(device->partitions, g_strdup(name));
	}
	g_ptr_array_sort(device->partitions, compare_partitions);
	for (guint i = 0; i < device->partitions->len; i++) {
		dev_t number = device_number_read(device->name, device->partitions->pdata[i], NULL);

		g_array_append_val(device->partition_numbers, number);
	}
}

/* ---- devices */

static void
read_identity(struct device *device)
{
	g_autofree char *pid = device_read_text(device->name, "pid", NULL);

	device->pid = pid ? atoi(pid) : 0;
	device->backend = device_read_text(device->name, "backend", NULL);
}

static bool
device_read_facts(struct device *device, GError **error)
{
	const char *name = device->name;
	/* Since Linux 6.10; the driver has always let the kernel scan. */
	g_autofree char *scans = device_read_text(name, "partscan", NULL);
	g_autoptr(GError) reason = NULL;

	/* The first error stays. */
	device->number = device_number_read(name, NULL, &reason);
	device->size = device_read_number(name, "size", G_MAXUINT64 / SECTOR, &reason) * SECTOR;
	device->read_only = device_read_number(name, "ro", 1, &reason);
	device->block_size = (unsigned int)device_read_number(name, "queue/logical_block_size",
							      1 << 30, &reason);
	if (reason)
		return failure_pass(error, &reason);
	device->scans_partitions = !scans || strcmp(scans, "0") != 0;
	read_identity(device);
	read_partitions(device);
	return true;
}

static struct device *
device_new(const char *name)
{
	struct device *device = g_new0(struct device, 1);

	parse_index(name, &device->index);
	device->name = g_strdup(name);
	device->partitions = g_ptr_array_new_with_free_func(g_free);
	device->partition_numbers = g_array_new(false, false, sizeof(dev_t));
	return device;
}

static struct device *
read_one(const char *name, GError **error)
{
	struct device *DEVICE_CLEANUP device = device_new(name);

	return device_read_facts(device, error) ? g_steal_pointer(&device) : NULL;
}

/* *error can't be set. */
static struct device *
identify_one(const char *name, GError **error)
{
	struct device *device = device_new(name);

	(void)error;
	read_identity(device);
	return device;
}

char *
device_name(const char *text, GError **error)
{
	const char *name = g_str_has_prefix(text, "/dev/") ? text + strlen("/dev/") : text;
	unsigned int index;

	if (parse_index(name, &index))
		return g_strdup(name);
	return FAILURE_NULL(
		error, EINVAL,
		"%s is no device of the nbd driver: they are called /dev/nbd0, /dev/nbd1, ...%s",
		text,
		g_str_has_prefix(name, "nbd") && strchr(name, 'p')
			? "; name the whole device, not a partition"
			: "");
}

struct device *
device_read(const char *name, GError **error)
{
	g_autofree char *plain = device_name(name, error);
	g_autoptr(GError) reason = NULL;
	struct device *device;

	if (!plain)
		return NULL;
	device = read_one(plain, &reason);
	if (failure_is(reason, ENOENT))
		failure(error, ENOENT,
			"there is no device /dev/%s; nbdloop list shows those that are attached",
			plain);
	else if (reason)
		failure_pass(error, &reason);
	return device;
}

struct device *
device_read_attached(const char *name, GError **error)
{
	struct device *DEVICE_CLEANUP device = device_read(name, error);

	if (device && device->pid == 0)
		return FAILURE_NULL(error, ENXIO, "/dev/%s is not attached", device->name);
	return g_steal_pointer(&device);
}

static int
compare_devices(gconstpointer a, gconstpointer b)
{
	const struct device *const *one = a, *const *other = b;

	return (*one)->index < (*other)->index ? -1 : (*one)->index > (*other)->index;
}

static GPtrArray *
find_attached(struct device *(*read)(const char *name, GError **error), GError **error)
{
	g_autoptr(GPtrArray) devices = g_ptr_array_new_with_free_func((GDestroyNotify)device_free);
	g_autofree char *block = system_file_path("/sys/block");
	g_autoptr(GDir) entries = g_dir_open(block, 0, error);
	const char *name;

	if (!entries)
		return NULL;
	while ((name = g_dir_read_name(entries)) != NULL) {
		struct device *DEVICE_CLEANUP device = NULL;
		g_autoptr(GError) reason = NULL;
		g_autofree char *pid = NULL;
		unsigned int index;

		if (parse_index(name, &index))
			pid = device_read_text(name, "pid", NULL);
		/* Of the many that are not attached, no more is read. */
		if (!pid)
			continue;
		device = read(name, &reason);
		/* ENOENT: it has just been removed. */
		if (!device && !failure_is(reason, ENOENT)) {
			failure_pass(error, &reason);
			return NULL;
		}
		/* Process 0: it has just been detached. */
		if (device && device->pid != 0)
			g_ptr_array_add(devices, g_steal_pointer(&device));
	}
	g_ptr_array_sort(devices, compare_devices);
	return g_steal_pointer(&devices);
}

GPtrArray *
devices_read_attached(GError **error)
{
	return find_attached(read_one, error);
}

GPtrArray *
devices_identify_attached(GError **error)
{
	return find_attached(identify_one, error);
}

const char *
device_part_numbered(const struct device *device, dev_t number)
{
	if (device->number == number)
		return device->name;
	for (guint i = 0; i < device->partitions->len; i++) {
		if (g_array_index(device->partition_numbers, dev_t, i) == number)
			return device->partitions->pdata[i];
	}
	return NULL;
}

void
device_free(struct device *device)
{
	if (!device)
		return;
	g_free(device->name);
	g_free(device->backend);
	g_ptr_array_unref(device->partitions);
	g_array_unref(device->partition_numbers);
	g_free(device);
}
