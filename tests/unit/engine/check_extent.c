/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Holes and data of an image.
 */
#include "engine/image/extent.h"

#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB  UINT64_C(1024)
#define UNIT (64 * KIB) /* no page is larger */

static struct fake_image disk;
static char map[1024]; /* the visited extents: "0+65536 data, 65536+65536 hole" */

static void
punch(uint64_t offset, uint64_t length)
{
	ck_assert_int_eq(fallocate(disk.image->backing.fd,
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
				   (off_t)length),
			 0);
}

/* A file of 8 units, d d h h d h d d, of which the image shows all but the first. */
static void
begin(void)
{
	fake_image_open(&disk, &(struct fake_facts){.file_size = 8 * UNIT, .offset = UNIT});
	punch(2 * UNIT, 2 * UNIT);
	punch(5 * UNIT, UNIT);
}

static void
end(void)
{
	fake_image_close(&disk);
}

static int
note(void *data, uint64_t offset, uint64_t length, bool hole)
{
	size_t used = strlen(map);

	ck_assert_uint_gt(length, 0);
	snprintf(map + used, sizeof(map) - used, "%s%llu+%llu %s", used ? ", " : "",
		 (unsigned long long)(offset / KIB), (unsigned long long)(length / KIB),
		 hole ? "hole" : "data");
	return *(const int *)data;
}

static void
assert_map(uint64_t offset, uint64_t length, bool one, const char *expected)
{
	int result = 0;

	map[0] = '\0';
	ck_assert_int_eq(extents_visit(disk.image, offset, length, one, note, &result), 0);
	ck_assert_str_eq(map, expected);
}

START_TEST(extents_come_in_order_and_cover_the_range)
{
	assert_map(0, 7 * UNIT, false,
		   "0+64 data, 64+128 hole, 192+64 data, 256+64 hole, 320+128 data");
}
END_TEST

START_TEST(extents_are_cut_at_both_ends_of_the_range)
{
	assert_map(32 * KIB, 64 * KIB, false, "32+32 data, 64+32 hole");
	assert_map(96 * KIB, 32 * KIB, false, "96+32 hole");
	assert_map(200 * KIB, 4 * KIB, false, "200+4 data");
	assert_map(256 * KIB, 64 * KIB, false, "256+64 hole");
}
END_TEST

START_TEST(hole_at_the_end_of_the_file_is_a_hole)
{
	punch(7 * UNIT, UNIT);
	assert_map(300 * KIB, 148 * KIB, false, "300+20 hole, 320+64 data, 384+64 hole");
}
END_TEST

START_TEST(only_the_first_is_visited_when_one_is_wanted)
{
	assert_map(0, 7 * UNIT, true, "0+64 data");
	assert_map(100 * KIB, 6 * UNIT, true, "100+92 hole");
}
END_TEST

START_TEST(empty_range_has_no_extents)
{
	assert_map(0, 0, false, "");
	assert_map(7 * UNIT, 0, true, "");
}
END_TEST

START_TEST(visitor_can_end_it)
{
	int result = -ENOMEM;

	map[0] = '\0';
	ck_assert_int_eq(extents_visit(disk.image, 0, 7 * UNIT, false, note, &result), -ENOMEM);
	ck_assert_str_eq(map, "0+64 data");
	map[0] = '\0';
	ck_assert_int_eq(extents_visit(disk.image, 0, 7 * UNIT, true, note, &result), -ENOMEM);
}
END_TEST

/* A client that is told of a hole takes it for zeroes and sends no read, which would return the
 * real bytes. */
START_TEST(what_a_truncated_file_has_lost_is_no_hole)
{
	ck_assert_int_eq(ftruncate(disk.image->backing.fd, (off_t)(5 * UNIT + UNIT / 2)), 0);
	assert_map(256 * KIB, 192 * KIB, false, "256+32 hole, 288+160 data");
	assert_map(320 * KIB, 64 * KIB, false, "320+64 data");
	ck_assert_int_eq(ftruncate(disk.image->backing.fd, 0), 0);
	assert_map(0, 7 * UNIT, false, "0+448 data");
}
END_TEST

START_TEST(file_system_that_cannot_tell_has_one_extent_of_data)
{
	int fd = open("/proc/version", O_RDONLY | O_CLOEXEC), saved = disk.image->backing.fd;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(lseek(fd, 0, SEEK_DATA), -1);
	ck_assert_int_eq(errno, EINVAL);
	disk.image->backing.fd = fd;
	assert_map(0, 7 * UNIT, false, "0+448 data");
	disk.image->backing.fd = saved;
	close(fd);
}
END_TEST

START_TEST(file_with_holes_is_told_from_a_full_one)
{
	static char data[8 * UNIT];

	ck_assert(extents_have_holes(disk.image));
	ck_assert_int_eq(pwrite(disk.image->backing.fd, data, sizeof(data), 0), sizeof(data));
	ck_assert_int_eq(fsync(disk.image->backing.fd), 0);
	ck_assert(!extents_have_holes(disk.image));
	punch(3 * UNIT, UNIT);
	ck_assert(extents_have_holes(disk.image));
}
END_TEST

START_TEST(other_errors_are_returned)
{
	int saved = disk.image->backing.fd, result = 0;

	disk.image->backing.fd = -1;
	ck_assert_int_eq(extents_visit(disk.image, 0, UNIT, false, note, &result), -EBADF);
	disk.image->backing.fd = saved;
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "extents", .begin = begin, .end = end},
		{.test = extents_come_in_order_and_cover_the_range},
		{.test = extents_are_cut_at_both_ends_of_the_range},
		{.test = hole_at_the_end_of_the_file_is_a_hole},
		{.test = only_the_first_is_visited_when_one_is_wanted},
		{.test = empty_range_has_no_extents},
		{.test = visitor_can_end_it},
		{.test = what_a_truncated_file_has_lost_is_no_hole},
		{.test = file_system_that_cannot_tell_has_one_extent_of_data},
		{.test = file_with_holes_is_told_from_a_full_one},
		{.test = other_errors_are_returned},
		{0},
	};

	return suite_run("extent", cases);
}
