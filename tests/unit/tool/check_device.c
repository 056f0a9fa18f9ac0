/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Facts about devices from /sys, of a recorded tree.
 */
#include "tool/device/device.h"

#include "tests/lib/suite.h"
#include "tests/unit/tool/system_tree.h"

#include "tool/failure.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

static GError *error;

static struct device *
read_device(const char *name)
{
	struct device *device = device_read(name, &error);

	ck_assert_msg(device, "%s", error ? error->message : "no error either");
	return device;
}

static void
assert_refused(const char *name, int err, const char *words)
{
	ck_assert_ptr_null(device_read(name, &error));
	ck_assert_msg(failure_is(error, err), "%s", error->message);
	ck_assert_msg(strstr(error->message, words), "%s", error->message);
	g_clear_error(&error);
}

START_TEST(attached_devices_come_by_index_and_others_do_not)
{
	GPtrArray *devices = devices_read_attached(&error);
	const unsigned int wanted[] = {0, 1, 10};

	ck_assert_ptr_nonnull(devices);
	ck_assert_uint_eq(devices->len, 3);
	for (unsigned int i = 0; i < 3; i++)
		ck_assert_uint_eq(((struct device *)devices->pdata[i])->index, wanted[i]);
	g_ptr_array_unref(devices);
}
END_TEST

START_TEST(facts_of_an_attached_device)
{
	struct device *device = read_device("nbd0");

	ck_assert_str_eq(device->name, "nbd0");
	ck_assert_uint_eq(device->index, 0);
	ck_assert_uint_eq(device->number, makedev(43, 0));
	ck_assert_uint_eq(device->size, 64 << 20);
	ck_assert_uint_eq(device->block_size, 512);
	ck_assert(!device->read_only && device->scans_partitions);
	ck_assert_int_eq(device->pid, 812);
	ck_assert_str_eq(device->backend, "nbdloop:/run/nbdloop/812.sock");
	device_free(device);
}
END_TEST

START_TEST(facts_of_a_device_that_somebody_else_attached)
{
	/* As nbd-client attaches; and a kernel that does not say whether it scans partitions. */
	struct device *device = read_device("/dev/nbd1");

	ck_assert_uint_eq(device->index, 1);
	ck_assert_uint_eq(device->number, makedev(43, 32));
	ck_assert_uint_eq(device->block_size, 4096);
	ck_assert(device->read_only && device->scans_partitions);
	ck_assert_int_eq(device->pid, 830);
	ck_assert_ptr_null(device->backend);
	ck_assert_uint_eq(device->partitions->len, 0);
	device_free(device);
}
END_TEST

START_TEST(device_without_pid_is_not_attached)
{
	struct device *device = read_device("nbd2");

	ck_assert_int_eq(device->pid, 0);
	ck_assert_uint_eq(device->size, 0);
	device_free(device);
}
END_TEST

START_TEST(partitions_come_by_number)
{
	struct device *device;
	char text[64];

	/* So many that the directory hardly lists them in order by chance. */
	for (int i = 15; i > 0; i--) {
		snprintf(text, sizeof(text), "sys/block/nbd0/nbd0p%d/partition", i);
		tree_write(text, "1\n");
	}
	/* A directory with a device's name that is no device. */
	tree_write("sys/block/nbd0/nbd0power/control", "auto\n");
	device = read_device("nbd0");
	ck_assert_uint_eq(device->partitions->len, 15);
	for (unsigned int i = 0; i < 15; i++) {
		snprintf(text, sizeof(text), "nbd0p%u", i + 1);
		ck_assert_str_eq(device->partitions->pdata[i], text);
	}
	device_free(device);
}
END_TEST

START_TEST(kernel_that_does_not_scan_is_believed)
{
	struct device *device;

	tree_write("sys/block/nbd0/partscan", "0\n");
	device = read_device("nbd0");
	ck_assert(!device->scans_partitions);
	device_free(device);
}
END_TEST

START_TEST(names_that_are_no_device_are_refused)
{
	static const char *const names[] = {
		"",      "nbd",   "nbd0p1",       "sda",          "/dev/sda",      "nbd-1",
		"nbd 1", "nbd01", "nbd0/../nbd1", "/dev/../nbd0", "nbd99999999999"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_refused(names[i], EINVAL, "is no device of the nbd driver");
	assert_refused("/dev/nbd0p1", EINVAL, "not a partition");
	assert_refused("/dev/nbd7", ENOENT, "there is no device /dev/nbd7");
}
END_TEST

START_TEST(nonsense_in_a_file_is_an_error_that_names_it)
{
	tree_write("sys/block/nbd0/size", "big\n");
	assert_refused("nbd0", EINVAL, "/sys/block/nbd0/size: \"big\"");
	ck_assert_ptr_null(devices_read_attached(&error));
	ck_assert_msg(strstr(error->message, "nbd0/size"), "%s", error->message);
	g_clear_error(&error);
	tree_write("sys/block/nbd0/size", "131072\n");
	tree_write("sys/block/nbd0/dev", "none\n");
	assert_refused("nbd0", EINVAL, "/sys/block/nbd0/dev: \"none\"");
}
END_TEST

START_TEST(device_that_is_just_removed_is_left_out)
{
	GPtrArray *devices;

	tree_remove("sys/block/nbd10/size");
	devices = devices_read_attached(&error);
	ck_assert_ptr_nonnull(devices);
	ck_assert_uint_eq(devices->len, 2);
	g_ptr_array_unref(devices);
}
END_TEST

START_TEST(no_sys_is_an_error)
{
	setenv("NBDLOOP_SYSROOT", "/nonexistent", 1);
	ck_assert_ptr_null(devices_read_attached(&error));
	ck_assert_msg(strstr(error->message, "/nonexistent/sys/block"), "%s", error->message);
	g_clear_error(&error);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "recorded",
		 .begin_once = tree_new,
		 .end_once = tree_free,
		 .begin = tree_begin},
		{.test = attached_devices_come_by_index_and_others_do_not},
		{.test = facts_of_an_attached_device},
		{.test = facts_of_a_device_that_somebody_else_attached},
		{.test = device_without_pid_is_not_attached},
		{.test = partitions_come_by_number},
		{.test = kernel_that_does_not_scan_is_believed},
		{.test = names_that_are_no_device_are_refused},
		{.test = nonsense_in_a_file_is_an_error_that_names_it},
		{.test = device_that_is_just_removed_is_left_out},
		{.test = no_sys_is_an_error},
		{0},
	};

	return suite_run("device", cases);
}
