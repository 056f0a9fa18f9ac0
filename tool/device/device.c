/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/device.h"

#include "tool/failure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

/* The unit of "size", whatever the device's block size. */
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

static int
errno_of(const GError *reason)
{
	/* NODEV: it was there when it was opened, and was removed before it was read. */
	bool gone = g_error_matches(reason, G_FILE_ERROR, G_FILE_ERROR_NOENT) ||
		    g_error_matches(reason, G_FILE_ERROR, G_FILE_ERROR_NODEV);

	return gone ? ENOENT : EIO;
}

/* NULL: *error is set, to ENOENT if there is no such file. */
static char *
read_text(const char *directory, const char *file, GError **error)
{
	g_autofree char *path = g_build_filename(directory, file, NULL);
	g_autoptr(GError) reason = NULL;
	char *text = NULL;

	if (g_file_get_contents(path, &text, NULL, &reason))
		return g_strchomp(text);
	return FAILURE_NULL(error, errno_of(reason), "%s", reason->message);
}

/* The number in a file; 0 and *error if there is none. */
static guint64
read_number(const char *directory, const char *file, guint64 max, GError **error)
{
	g_autofree char *text = read_text(directory, file, error);
	guint64 number = 0;

	if (!text)
		return 0;
	if (!g_ascii_string_to_unsigned(text, 10, 0, max, &number, NULL))
		failure(error, EINVAL, "%s/%s: \"%s\" is not the number that it should be",
			directory, file, text);
	return number;
}

dev_t
device_number_read(const char *directory, GError **error)
{
	g_autofree char *text = read_text(directory, "dev", error);
	unsigned int numbers[2];

	if (!text)
		return 0;
	if (sscanf(text, "%u:%u", &numbers[0], &numbers[1]) != 2) {
		failure(error, EINVAL, "%s/dev: \"%s\" is no device number", directory, text);
		return 0;
	}
	return makedev(numbers[0], numbers[1]);
}

/* A file that may be missing: then it is NULL, without an error. */
static char *
read_text_if_there(const char *directory, const char *file)
{
	return read_text(directory, file, NULL);
}

static int
compare_partitions(gconstpointer a, gconstpointer b)
{
	const char *const *one = a, *const *other = b;

	return strverscmp(*one, *other);
}

static void
read_partitions(struct device *device, const char *directory)
{
	g_autoptr(GDir) entries = g_dir_open(directory, 0, NULL);
	const char *name;

	while (entries && (name = g_dir_read_name(entries)) != NULL) {
		g_autofree char *mark = g_build_filename(directory, name, "partition", NULL);

		if (g_str_has_prefix(name, device->name) && g_file_test(mark, G_FILE_TEST_EXISTS))
			g_ptr_array_add(device->partitions, g_strdup(name));
	}
	g_ptr_array_sort(device->partitions, compare_partitions);
	for (guint i = 0; i < device->partitions->len; i++) {
		g_autofree char *own =
			g_build_filename(directory, device->partitions->pdata[i], NULL);
		dev_t number = device_number_read(own, NULL);

		g_array_append_val(device->partition_numbers, number);
	}
}

/* ---- devices */

static bool
read_facts(struct device *device, const char *directory, GError **error)
{
	g_autofree char *pid = read_text_if_there(directory, "pid");
	/* Since Linux 6.10; the driver has always let the kernel scan. */
	g_autofree char *scans = read_text_if_there(directory, "partscan");
	GError *reason = NULL;

	/* The first error stays. */
	device->number = device_number_read(directory, &reason);
	device->size = read_number(directory, "size", G_MAXUINT64 / SECTOR, &reason) * SECTOR;
	device->read_only = read_number(directory, "ro", 1, &reason);
	device->block_size =
		(unsigned int)read_number(directory, "queue/logical_block_size", 1 << 30, &reason);
	if (reason) {
		g_propagate_error(error, reason);
		return false;
	}
	device->scans_partitions = !scans || strcmp(scans, "0") != 0;
	device->pid = pid ? atoi(pid) : 0;
	device->backend = read_text_if_there(directory, "backend");
	read_partitions(device, directory);
	return true;
}

static struct device *
read_one(const char *sys, const char *name, GError **error)
{
	g_autofree char *directory = g_build_filename(sys, "block", name, NULL);
	struct device *DEVICE_CLEANUP device = g_new0(struct device, 1);

	parse_index(name, &device->index);
	device->name = g_strdup(name);
	device->partitions = g_ptr_array_new_with_free_func(g_free);
	device->partition_numbers = g_array_new(false, false, sizeof(dev_t));
	return read_facts(device, directory, error) ? g_steal_pointer(&device) : NULL;
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
device_read(const char *sys, const char *name, GError **error)
{
	g_autofree char *plain = device_name(name, error);
	GError *reason = NULL;
	struct device *device;

	if (!plain)
		return NULL;
	device = read_one(sys, plain, &reason);
	if (failure_is(reason, ENOENT)) {
		g_clear_error(&reason);
		failure(error, ENOENT,
			"there is no device /dev/%s; nbdloop list shows those that are attached",
			plain);
	} else if (reason) {
		g_propagate_error(error, reason);
	}
	return device;
}

static int
compare_devices(gconstpointer a, gconstpointer b)
{
	const struct device *const *one = a, *const *other = b;

	return (*one)->index < (*other)->index ? -1 : (*one)->index > (*other)->index;
}

static void
free_element(gpointer device)
{
	device_free(device);
}

GPtrArray *
devices_read(const char *sys, GError **error)
{
	g_autoptr(GPtrArray) devices = g_ptr_array_new_with_free_func(free_element);
	g_autofree char *block = g_build_filename(sys, "block", NULL);
	g_autoptr(GDir) entries = g_dir_open(block, 0, error);
	const char *name;

	if (!entries)
		return NULL;
	while ((name = g_dir_read_name(entries)) != NULL) {
		GError *reason = NULL;
		struct device *device;
		unsigned int index;

		if (!parse_index(name, &index))
			continue;
		device = read_one(sys, name, &reason);
		if (device) {
			g_ptr_array_add(devices, device);
		} else if (failure_is(reason, ENOENT)) {
			g_clear_error(&reason); /* it has just been removed */
		} else {
			g_propagate_error(error, reason);
			return NULL;
		}
	}
	g_ptr_array_sort(devices, compare_devices);
	return g_steal_pointer(&devices);
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
