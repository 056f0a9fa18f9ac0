/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Facts about block devices from sysfs.
 */
#include "engine/backing/backing.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A block device of this machine with a queue of its own, or 0. */
static dev_t
find_disk(void)
{
	DIR *dir = opendir("/sys/dev/block");
	const struct dirent *entry;
	dev_t found = 0;

	while (dir && !found && (entry = readdir(dir)) != NULL) {
		unsigned int major_, minor_;
		char path[512];

		if (sscanf(entry->d_name, "%u:%u", &major_, &minor_) != 2)
			continue;
		snprintf(path, sizeof(path), "/sys/dev/block/%s/queue", entry->d_name);
		if (access(path, F_OK) == 0)
			found = makedev(major_, minor_);
	}
	if (dir)
		closedir(dir);
	return found;
}

START_TEST(disk_tells_of_its_queue)
{
	const struct backing disk = {.device = find_disk()};
	uint64_t size = 0;

	ck_assert_int_eq(backing_queue_read(&disk, "logical_block_size", &size), 0);
	ck_assert_uint_ge(size, 512);
	ck_assert_uint_eq(size & (size - 1), 0);
}
END_TEST

START_TEST(what_is_no_number_or_not_there_is_not_told)
{
	const struct backing disk = {.device = find_disk()};
	uint64_t value = 42;

	ck_assert_int_eq(backing_queue_read(&disk, "no_such_file", &value), -ENOENT);
	ck_assert_int_eq(backing_queue_read(&disk, "scheduler", &value), -ENOENT);
	ck_assert_uint_eq(value, 42);
}
END_TEST

START_TEST(device_that_only_a_file_system_knows_has_no_queue)
{
	const struct backing unknown = {.device = makedev(0, 4711)};
	uint64_t value = 42;

	ck_assert_int_eq(backing_queue_read(&unknown, "logical_block_size", &value), -ENOENT);
	ck_assert_uint_eq(value, 42);
}
END_TEST

int
main(void)
{
	const char *no_disk = find_disk() ? NULL : "/sys/dev/block has no disk";
	const struct suite_row cases[] = {
		{.name = "queue"},
		{.test = disk_tells_of_its_queue, .reason = no_disk},
		{.test = what_is_no_number_or_not_there_is_not_told, .reason = no_disk},
		{.test = device_that_only_a_file_system_knows_has_no_queue},
		{0},
	};

	return suite_run("block_queue", cases);
}
