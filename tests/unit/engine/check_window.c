/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The window of a file that an image shows.
 */
#include "engine/image/window.h"

#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

static char path[] = "disk.img";
static const struct backing backing = {.path = path};

static void
assert_length(uint64_t file_size, uint64_t offset, uint64_t sizelimit, uint64_t expected)
{
	const struct image_config config = {.offset = offset, .sizelimit = sizelimit};
	uint64_t length = 12345;
	char *error = NULL;

	ck_assert_int_eq(window_length(&backing, &config, file_size, &length, &error), 0);
	ck_assert_uint_eq(length, expected);
	ck_assert_ptr_null(error);
}

START_TEST(window_is_what_lies_behind_the_offset_up_to_the_limit)
{
	assert_length(10000, 0, 0, 10000);
	assert_length(10000, 512, 0, 9488);
	assert_length(10000, 512, 1000, 1000);
	assert_length(10000, 512, 9488, 9488);
	assert_length(10000, 512, 9489, 9488);
	assert_length(10000, 10000, 0, 0);
	assert_length(10000, 9999, INT64_MAX, 1);
	assert_length(0, 0, 0, 0);
	assert_length(INT64_MAX, INT64_MAX, INT64_MAX, 0);
	assert_length(INT64_MAX, 1, UINT64_MAX, INT64_MAX - 1);
}
END_TEST

START_TEST(offset_behind_the_end_of_the_file_is_refused)
{
	const struct image_config config = {.offset = 10001};
	uint64_t length;
	char *error = NULL;

	ck_assert_int_eq(window_length(&backing, &config, 10000, &length, &error), -EINVAL);
	ck_assert_str_eq(error, "disk.img: offset=10001 is past the end of the file (10000 bytes)");
	free(error);
}
END_TEST

static void
assert_part_rounded(const struct image_config *config, uint64_t length, unsigned int sector,
		    uint64_t expected, const char *warning)
{
	log_capture_begin();
	ck_assert_uint_eq(window_round(&backing, config, length, sector), expected);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), warning ? 1 : 0);
	ck_assert_str_eq(log_capture_text(LOG_LEVEL_WARNING, 0), warning ? warning : "");
	log_capture_end();
}

static void
assert_rounded(uint64_t length, unsigned int sector, uint64_t expected, const char *warning)
{
	const struct image_config config = {.offset = 0};

	assert_part_rounded(&config, length, sector, expected, warning);
}

START_TEST(offset_and_limit_are_blamed_for_a_rest_of_theirs)
{
	const struct image_config offset = {.offset = 77}, limit = {.sizelimit = 1000},
				  whole = {.offset = 512};

	assert_part_rounded(
		&offset, 1048576 - 77, 512, 1048064,
		"disk.img: offset=77 is no multiple of the sector size, 512 bytes; the last 435 bytes can't be reached");
	assert_part_rounded(
		&limit, 1000, 512, 512,
		"disk.img: sizelimit=1000 is no multiple of the sector size, 512 bytes; the last 488 bytes can't be reached");
	assert_part_rounded(
		&whole, 1025, 512, 1024,
		"disk.img: file does not end on a 512-byte sector boundary; the last 1 byte can't be reached");
}
END_TEST

START_TEST(whole_sectors_are_kept_in_silence)
{
	assert_rounded(512, 512, 512, NULL);
	assert_rounded(10240, 512, 10240, NULL);
	assert_rounded(8192, 4096, 8192, NULL);
	assert_rounded(UINT64_MAX - 4095, 4096, UINT64_MAX - 4095, NULL);
}
END_TEST

START_TEST(rest_behind_the_last_sector_is_ignored_with_a_warning)
{
	assert_rounded(
		513, 512, 512,
		"disk.img: file does not end on a 512-byte sector boundary; the last 1 byte can't be reached");
	assert_rounded(
		10000, 512, 9728,
		"disk.img: file does not end on a 512-byte sector boundary; the last 272 bytes can't be reached");
	assert_rounded(
		10240, 4096, 8192,
		"disk.img: file does not end on a 4096-byte sector boundary; the last 2048 bytes can't be reached");
}
END_TEST

START_TEST(sector_of_one_byte_leaves_nothing_out)
{
	assert_rounded(1, 1, 1, NULL);
	assert_rounded(10001, 1, 10001, NULL);
	assert_rounded(0, 1, 0, "disk.img: file is empty");
}
END_TEST

START_TEST(less_than_a_sector_is_nothing_with_a_warning)
{
	const char *warning =
		"disk.img: file is smaller than 512 bytes; the device may be useless or invisible "
		"for system tools";

	assert_rounded(0, 512, 0, warning);
	assert_rounded(1, 512, 0, warning);
	assert_rounded(511, 512, 0, warning);
	assert_rounded(
		4095, 4096, 0,
		"disk.img: file is smaller than 4096 bytes; the device may be useless or invisible for "
		"system tools");
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "length"},
		{.test = window_is_what_lies_behind_the_offset_up_to_the_limit},
		{.test = offset_behind_the_end_of_the_file_is_refused},
		{.name = "rounding"},
		{.test = offset_and_limit_are_blamed_for_a_rest_of_theirs},
		{.test = whole_sectors_are_kept_in_silence},
		{.test = rest_behind_the_last_sector_is_ignored_with_a_warning},
		{.test = sector_of_one_byte_leaves_nothing_out},
		{.test = less_than_a_sector_is_nothing_with_a_warning},
		{0},
	};

	return suite_run("window", cases);
}
