/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sizes, as users write them.
 */
#include "common/unit.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

struct size_row {
	const char *text;
	uint64_t bytes;
};

static void
assert_sizes(const struct size_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t bytes = 12345;
		int result = unit_parse_size(rows[i].text, &bytes);

		ck_assert_msg(result == 0, "%s: result %d", rows[i].text, result);
		ck_assert_msg(bytes == rows[i].bytes, "%s: %" PRIu64 " bytes, not %" PRIu64,
			      rows[i].text, bytes, rows[i].bytes);
	}
}

#define ASSERT_SIZES(rows) assert_sizes((rows), sizeof(rows) / sizeof((rows)[0]))

static void
assert_refused(const char *text, int error)
{
	uint64_t bytes = 12345;
	int result = unit_parse_size(text, &bytes);

	ck_assert_msg(result == error, "'%s': result %d, not %d", text, result, error);
	ck_assert_msg(bytes == 12345, "'%s': refused, but the result was written", text);
}

START_TEST(plain_numbers_are_bytes)
{
	static const struct size_row rows[] = {
		{"0", 0},
		{"1", 1},
		{"512", 512},
		{"007", 7},
		{"010", 10},
		{"0x10", 16},
		{"0XfF", 255},
		{"10b", 10},
		{"10B", 10},
		{"9223372036854775807", INT64_MAX},
		{"0x7fffffffffffffff", INT64_MAX},
	};

	ASSERT_SIZES(rows);
}
END_TEST

START_TEST(letters_and_ib_are_powers_of_1024)
{
	static const struct size_row rows[] = {
		{"64k", 65536},
		{"64K", 65536},
		{"64Ki", 65536},
		{"64kiB", 65536},
		{"64KiB", 65536},
		{"3M", UINT64_C(3) << 20},
		{"3MiB", UINT64_C(3) << 20},
		{"4Gi", UINT64_C(4) << 30},
		{"4g", UINT64_C(4) << 30},
		{"5T", UINT64_C(5) << 40},
		{"6P", UINT64_C(6) << 50},
		{"7E", UINT64_C(7) << 60},
		{"0x10k", 16384},
	};

	ASSERT_SIZES(rows);
}
END_TEST

START_TEST(letters_with_b_are_powers_of_1000)
{
	static const struct size_row rows[] = {
		{"10KB", 10000},
		{"10kB", 10000},
		{"2MB", 2000000},
		{"2GB", UINT64_C(2000000000)},
		{"2TB", UINT64_C(2000000000000)},
		{"2PB", UINT64_C(2000000000000000)},
		{"9EB", UINT64_C(9000000000000000000)},
	};

	ASSERT_SIZES(rows);
}
END_TEST

START_TEST(s_counts_sectors_of_512_bytes)
{
	static const struct size_row rows[] = {{"2048s", 1 << 20}, {"1S", 512}, {"0s", 0}};

	ASSERT_SIZES(rows);
}
END_TEST

START_TEST(b_and_e_are_digits_in_base_16)
{
	static const struct size_row rows[] = {{"0x1E", 30}, {"0x1b", 27}, {"0xEEs", 0xee * 512}};

	ASSERT_SIZES(rows);
}
END_TEST

START_TEST(size_with_two_suffixes_is_refused)
{
	assert_refused("1kk", -EINVAL);
	assert_refused("1Mk", -EINVAL);
	assert_refused("1KiBs", -EINVAL);
	assert_refused("1bb", -EINVAL);
	assert_refused("1sB", -EINVAL);
	assert_refused("1KBi", -EINVAL);
}
END_TEST

START_TEST(sign_blank_and_fraction_are_refused)
{
	assert_refused("-1", -EINVAL);
	assert_refused("+1", -EINVAL);
	assert_refused(" 1", -EINVAL);
	assert_refused("1 ", -EINVAL);
	assert_refused("1 k", -EINVAL);
	assert_refused("1k\n", -EINVAL);
	assert_refused("1.5G", -EINVAL);
	assert_refused("0x-1", -EINVAL);
}
END_TEST

START_TEST(text_without_a_number_is_refused)
{
	assert_refused("", -EINVAL);
	assert_refused("k", -EINVAL);
	assert_refused("0x", -EINVAL);
	assert_refused("x10", -EINVAL);
	assert_refused("ten", -EINVAL);
}
END_TEST

START_TEST(unknown_suffix_is_refused)
{
	assert_refused("1Z", -EINVAL);
	assert_refused("1i", -EINVAL);
	assert_refused("1iB", -EINVAL);
	assert_refused("1Kb", -EINVAL);
	assert_refused("1KIB", -EINVAL);
	assert_refused("12f", -EINVAL);
	assert_refused("1\xc2\xb5", -EINVAL);
}
END_TEST

START_TEST(more_than_the_largest_file_is_out_of_range)
{
	assert_refused("9223372036854775808", -ERANGE);
	assert_refused("0x8000000000000000", -ERANGE);
	assert_refused("18446744073709551615", -ERANGE);
	assert_refused("18446744073709551617", -ERANGE);
	assert_refused("99999999999999999999999999", -ERANGE);
	assert_refused("8E", -ERANGE);
	assert_refused("10EB", -ERANGE);
	assert_refused("16E", -ERANGE);
	assert_refused("18014398509481984s", -ERANGE);
}
END_TEST

START_TEST(huge_number_with_a_bad_suffix_is_not_a_size)
{
	assert_refused("99999999999999999999999999x", -EINVAL);
}
END_TEST

START_TEST(format_takes_the_largest_unit_that_is_exact)
{
	static const struct size_row rows[] = {
		{"0", 0},
		{"1", 1},
		{"1000", 1000},
		{"1023", 1023},
		{"1k", 1024},
		{"1025", 1025},
		{"64k", 65536},
		{"1M", 1 << 20},
		{"1025k", 1025 << 10},
		{"4G", UINT64_C(4) << 30},
		{"5T", UINT64_C(5) << 40},
		{"6P", UINT64_C(6) << 50},
		{"7E", UINT64_C(7) << 60},
		{"9223372036854775807", INT64_MAX},
		{"18446744073709551615", UINT64_MAX},
	};
	char text[UNIT_SIZE_TEXT];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ck_assert_str_eq(unit_format_size(rows[i].bytes, text), rows[i].text);
}
END_TEST

START_TEST(format_returns_the_callers_buffer)
{
	char text[UNIT_SIZE_TEXT];

	ck_assert_ptr_eq(unit_format_size(1, text), text);
}
END_TEST

START_TEST(formatted_size_reads_back_to_itself)
{
	char text[UNIT_SIZE_TEXT];

	for (int shift = 0; shift < 63; shift++) {
		for (int64_t delta = -1; delta <= 1; delta++) {
			uint64_t bytes = (UINT64_C(1) << shift) + (uint64_t)delta;
			uint64_t again = bytes + 1;

			ck_assert_int_eq(unit_parse_size(unit_format_size(bytes, text), &again), 0);
			ck_assert_uint_eq(again, bytes);
		}
	}
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "parse"},
		{.test = plain_numbers_are_bytes},
		{.test = letters_and_ib_are_powers_of_1024},
		{.test = letters_with_b_are_powers_of_1000},
		{.test = s_counts_sectors_of_512_bytes},
		{.test = b_and_e_are_digits_in_base_16},
		{.test = size_with_two_suffixes_is_refused},
		{.test = sign_blank_and_fraction_are_refused},
		{.test = text_without_a_number_is_refused},
		{.test = unknown_suffix_is_refused},
		{.test = more_than_the_largest_file_is_out_of_range},
		{.test = huge_number_with_a_bad_suffix_is_not_a_size},
		{.name = "format"},
		{.test = format_takes_the_largest_unit_that_is_exact},
		{.test = format_returns_the_callers_buffer},
		{.test = formatted_size_reads_back_to_itself},
		{0},
	};

	return suite_run("unit", cases);
}
