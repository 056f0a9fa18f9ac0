/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's uses of an image, in recorded trees: loop devices, their partitions, mounts and
 * holders.
 */
#include "common/image_use.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static char root[] = "/tmp/nbdloop-use.XXXXXX";
static char image[PATH_MAX];
static struct image_use use;

/* Makes a file below the root, and the directories above it. */
static void __attribute__((format(printf, 2, 3))) record(const char *name, const char *format, ...)
{
	char path[PATH_MAX];
	va_list values;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
		*at = '\0';
		mkdir(path, 0700);
		*at = '/';
	}
	f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	va_start(values, format);
	ck_assert_int_ge(vfprintf(f, format, values), 0);
	va_end(values);
	ck_assert_int_eq(fclose(f), 0);
}

/* A loop device of the image, from 1 MiB on, 2 MiB large. */
static void
record_loop(const char *ro)
{
	record("sys/block/loop3/loop/backing_file", "%s\n", image);
	record("sys/block/loop3/loop/offset", "1048576\n");
	record("sys/block/loop3/size", "4096\n");
	record("sys/block/loop3/ro", "%s\n", ro);
	record("sys/block/loop3/dev", "7:3\n");
}

static void
begin(void)
{
	strcpy(root + strlen(root) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	snprintf(image, sizeof(image), "%s/disk.img", root);
	record("disk.img", "data");
	record("other.img", "data");
	/* One loop device without a file, and one of another file. */
	record("sys/block/loop1/size", "0\n");
	record("sys/block/loop2/loop/backing_file", "%s/other.img\n", root);
	record("sys/block/loop2/loop/offset", "0\n");
	record("sys/block/loop2/size", "8192\n");
	record("sys/block/sda/size", "8192\n");
	record("proc/self/mountinfo", "36 35 8:1 / / rw,noatime - ext4 /dev/root rw\n");
	record("proc/1/mountinfo", "36 35 8:1 / / rw,noatime - ext4 /dev/root rw\n");
	record("proc/swaps", "Filename Type Size Used Priority\n");
}

static void
end(void)
{
	char command[PATH_MAX];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	ck_assert_int_eq(system(command), 0);
}

static bool
find(uint64_t offset, uint64_t end_)
{
	struct image_part part = {.offset = offset, .end = end_};
	struct stat st;

	ck_assert_int_eq(stat(image, &st), 0);
	part.device = st.st_dev;
	part.inode = st.st_ino;
	return image_use_find(root, &part, &use);
}

START_TEST(unused_file_has_no_user)
{
	ck_assert(!find(0, UINT64_MAX));
}
END_TEST

START_TEST(writable_loop_device_is_found_by_any_name_of_the_file)
{
	char other[PATH_MAX + 8];

	record_loop("0");
	snprintf(other, sizeof(other), "%s.link", image);
	ck_assert_int_eq(link(image, other), 0);
	strcpy(image, other);
	ck_assert(find(0, UINT64_MAX));
	ck_assert(use.writes && !use.held);
	ck_assert_str_eq(use.device, "loop3");
	ck_assert_str_eq(use.text, "/dev/loop3 is made of it");
}
END_TEST

START_TEST(read_only_loop_device_is_told_from_one_that_is_used)
{
	record_loop("1");
	ck_assert(find(0, UINT64_MAX));
	ck_assert(!use.writes && !use.held);
	record("proc/1/mountinfo", "36 35 7:3 / /srv/a rw - ext4 /dev/loop3 ro\n");
	ck_assert(find(0, UINT64_MAX));
	ck_assert(!use.writes && use.held);
	ck_assert_str_eq(use.text, "/dev/loop3 is made of it, and is mounted on /srv/a");
}
END_TEST

START_TEST(loop_device_of_another_part_is_no_user)
{
	record_loop("0");
	ck_assert(!find(0, 1 << 20));
	ck_assert(!find(3 << 20, UINT64_MAX));
	ck_assert(find(0, (1 << 20) + 1));
	ck_assert(find((3 << 20) - 1, UINT64_MAX));
}
END_TEST

START_TEST(partition_that_is_mounted_is_named)
{
	record_loop("0");
	record("sys/block/loop3/loop3p2/dev", "259:7\n");
	record("sys/block/loop3/loop3p2/partition", "2\n");
	record("proc/self/mountinfo", "36 35 259:7 / /home rw - xfs /dev/loop3p2 rw\n");
	ck_assert(find(0, UINT64_MAX));
	ck_assert(use.writes && use.held);
	ck_assert_str_eq(
		use.text,
		"/dev/loop3 is made of it, and has /dev/loop3p2, which is mounted on /home");
}
END_TEST

START_TEST(one_that_writes_comes_before_one_that_reads)
{
	record_loop("1");
	record("sys/block/loop4/loop/backing_file", "%s\n", image);
	record("sys/block/loop4/loop/offset", "0\n");
	record("sys/block/loop4/size", "8192\n");
	record("sys/block/loop4/ro", "0\n");
	ck_assert(find(0, UINT64_MAX));
	ck_assert_str_eq(use.device, "loop4");
}
END_TEST

START_TEST(block_device_that_is_mounted_or_held_is_used)
{
	const struct image_part part = {.device = makedev(8, 0), .end = UINT64_MAX};

	record("sys/dev/block/8:0/dev", "8:0\n");
	record("sys/dev/block/8:0/sda1/dev", "8:1\n");
	record("sys/dev/block/8:0/sda1/partition", "1\n");
	ck_assert(image_use_find(root, &part, &use));
	ck_assert(use.writes && use.held);
	ck_assert_str_eq(use.text, "it has /dev/sda1, which is mounted on /");
	ck_assert_str_eq(use.device, "");
	record("proc/self/mountinfo", "%s", "");
	record("proc/1/mountinfo", "%s", "");
	ck_assert(!image_use_find(root, &part, &use));
	record("sys/dev/block/8:0/sda1/holders/dm-3/x", "%s", "");
	ck_assert(image_use_find(root, &part, &use));
	ck_assert_str_eq(use.text, "it has /dev/sda1, which is a part of /dev/dm-3");
}
END_TEST

START_TEST(swap_file_is_used_whatever_its_name)
{
	char named[PATH_MAX + 16];

	snprintf(named, sizeof(named), "%s/swap file", root);
	ck_assert_int_eq(link(image, named), 0);
	record("proc/swaps",
	       "Filename Type Size Used Priority\n"
	       "%s/other.img file 8188 0 -2\n",
	       root);
	ck_assert(!find(0, UINT64_MAX));
	record("proc/swaps",
	       "Filename Type Size Used Priority\n"
	       "%s/swap\\040file\t\tfile\t\t8188\t\t0\t\t-2\n",
	       root);
	ck_assert(find(1 << 20, UINT64_MAX));
	ck_assert(use.writes && use.held);
	ck_assert_str_eq(use.text, "it is swap space");
	ck_assert_str_eq(use.device, "");
}
END_TEST

START_TEST(machine_without_such_files_has_no_users)
{
	const struct image_part part = {.device = makedev(8, 0), .end = UINT64_MAX};

	ck_assert(!image_use_find("/proc/nowhere", &part, &use));
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "image_use", .begin = begin, .end = end},
		{.test = unused_file_has_no_user},
		{.test = writable_loop_device_is_found_by_any_name_of_the_file},
		{.test = read_only_loop_device_is_told_from_one_that_is_used},
		{.test = loop_device_of_another_part_is_no_user},
		{.test = partition_that_is_mounted_is_named},
		{.test = one_that_writes_comes_before_one_that_reads},
		{.test = block_device_that_is_mounted_or_held_is_used},
		{.test = swap_file_is_used_whatever_its_name},
		{.test = machine_without_such_files_has_no_users},
		{0},
	};

	return suite_run("image_use", cases);
}
