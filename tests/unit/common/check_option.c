/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Option tables: from text to fields.
 */
#include "common/option_row.h"

#include "tests/lib/suite.h"
#include "tests/unit/common/paint_options.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The value is refused with this sentence, and nothing in the configuration changes. */
static void
assert_refused(const char *name, const char *value, int expected, const char *sentence)
{
	struct paint before = paint;
	char *error = NULL;
	int result = option_set(rows, &paint, name, value, &error);

	ck_assert_msg(result == expected, "%s=%s: result %d, not %d", name, value, result,
		      expected);
	ck_assert_ptr_nonnull(error);
	ck_assert_str_eq(error, sentence);
	ck_assert_mem_eq(&before, &paint, sizeof(paint));
	free(error);
}

START_TEST(init_sets_every_field_to_its_default)
{
	ck_assert_ptr_null(paint.file);
	ck_assert_uint_eq(paint.color, COLOR_GREEN);
	ck_assert_uint_eq(paint.offset, 0);
	ck_assert_uint_eq(paint.chunk, 65536);
	ck_assert_uint_eq(paint.sector, 512);
	ck_assert_uint_eq(paint.depth, 8);
	ck_assert_uint_eq(paint.any, 0);
	ck_assert_uint_eq(paint.port, 80);
	ck_assert_str_eq(paint.label, "wet paint");
}
END_TEST

START_TEST(free_leaves_null_and_may_be_repeated)
{
	assert_set("file", "disk.img");
	options_free(rows, &paint);
	ck_assert_ptr_null(paint.file);
	ck_assert_ptr_null(paint.label);
	options_free(rows, &paint);
}
END_TEST

START_TEST(set_takes_every_type)
{
	assert_set("file", "/srv/disk.img");
	assert_set("color", "blue");
	assert_set("offset", "4Gi");
	assert_set("chunk", "1M");
	assert_set("depth", "128");
	ck_assert_str_eq(paint.file, "/srv/disk.img");
	ck_assert_uint_eq(paint.color, COLOR_BLUE);
	ck_assert_uint_eq(paint.offset, UINT64_C(4) << 30);
	ck_assert_uint_eq(paint.chunk, 1 << 20);
	ck_assert_uint_eq(paint.depth, 128);
}
END_TEST

START_TEST(second_string_replaces_the_first_and_is_a_copy)
{
	char name[] = "two";

	assert_set("file", "one");
	assert_set("file", name);
	name[0] = 'X';
	ck_assert_str_eq(paint.file, "two");
}
END_TEST

START_TEST(unknown_name_is_told_apart_and_touches_nothing)
{
	struct paint before = paint;
	char untouched, *error = &untouched;

	ck_assert_int_eq(option_set(rows, &paint, "colour", "red", &error), -ENOENT);
	ck_assert_int_eq(option_set(rows, &paint, "", "red", &error), -ENOENT);
	ck_assert_int_eq(option_set(rows, &paint, "col", "red", &error), -ENOENT);
	ck_assert_ptr_eq(error, &untouched);
	ck_assert_mem_eq(&before, &paint, sizeof(paint));
}
END_TEST

static const struct {
	const char *value, *name;
} choices[] = {
	{"yes", "on"}, {"true", "on"}, {"no", "off"},    {"false", "off"},
	{"on", "on"},  {"Yes", "Yes"}, {"auto", "auto"}, {"", ""},
};

START_TEST(other_words_for_on_and_off_are_known)
{
	ck_assert_str_eq(option_choice_name(choices[_i].value), choices[_i].name);
}
END_TEST

START_TEST(choice_outside_its_list_is_refused_with_the_list)
{
	const char *end = "must be one of red, green, blue";
	char sentence[128];
	static const char *const bad[] = {"yellow", "", "re", "redd", "RED", "0", " red"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(sentence, sizeof(sentence), "color=%s: %s", bad[i], end);
		assert_refused("color", bad[i], -EINVAL, sentence);
	}
}
END_TEST

START_TEST(number_with_signs_blanks_or_garbage_is_refused)
{
	static const char *const bad[] = {"",   "-1",   "+1", " 1",  "1 ",
					  "1x", "0x10", "1k", "1.0", "x"};
	char sentence[128];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(sentence, sizeof(sentence),
			 "depth=%s: must be a whole number from 1 to 128", bad[i]);
		assert_refused("depth", bad[i], -EINVAL, sentence);
	}
}
END_TEST

START_TEST(number_outside_its_range_is_refused_with_the_range)
{
	assert_refused("depth", "0", -ERANGE, "depth=0: must be a whole number from 1 to 128");
	assert_refused("depth", "129", -ERANGE, "depth=129: must be a whole number from 1 to 128");
	assert_refused("depth", "4294967297", -ERANGE,
		       "depth=4294967297: must be a whole number from 1 to 128");
	assert_refused("depth", "18446744073709551617", -ERANGE,
		       "depth=18446744073709551617: must be a whole number from 1 to 128");
	assert_set("depth", "1");
	ck_assert_uint_eq(paint.depth, 1);
}
END_TEST

START_TEST(number_without_a_limit_stops_at_its_field)
{
	assert_set("any", "4294967295");
	ck_assert_uint_eq(paint.any, 4294967295U);
	assert_refused("any", "4294967296", -ERANGE,
		       "any=4294967296: must be a whole number from 0 to 4294967295");
}
END_TEST

START_TEST(number_with_choices_takes_no_other)
{
	assert_set("port", "443");
	ck_assert_uint_eq(paint.port, 443);
	assert_refused("port", "81", -EINVAL, "port=81: must be one of 80, 443");
	assert_refused("port", "1", -EINVAL, "port=1: must be one of 80, 443");
}
END_TEST

START_TEST(size_that_is_none_is_refused)
{
	static const char *const bad[] = {"", "-1", "+1", "1kk", "1 k", "big"};
	char sentence[128];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(sentence, sizeof(sentence),
			 "offset=%s: must be a size in bytes, such as 512, 64k or 4G", bad[i]);
		assert_refused("offset", bad[i], -EINVAL, sentence);
	}
}
END_TEST

START_TEST(size_outside_its_range_is_refused_with_the_range)
{
	assert_refused("chunk", "4095", -ERANGE,
		       "chunk=4095: must be a size in bytes from 4k to 1M");
	assert_refused("chunk", "1048577", -ERANGE,
		       "chunk=1048577: must be a size in bytes from 4k to 1M");
	assert_refused("chunk", "x", -EINVAL, "chunk=x: must be a size in bytes from 4k to 1M");
	assert_refused("offset", "8E", -ERANGE,
		       "offset=8E: must be a size in bytes from 0 to 9223372036854775807");
	assert_set("chunk", "4k");
	ck_assert_uint_eq(paint.chunk, 4096);
}
END_TEST

START_TEST(size_with_choices_compares_values_not_texts)
{
	assert_set("sector", "4096");
	ck_assert_uint_eq(paint.sector, 4096);
	assert_set("sector", "1k");
	ck_assert_uint_eq(paint.sector, 1024);
	assert_refused("sector", "700", -EINVAL, "sector=700: must be one of 512, 1024, 4k");
	assert_refused("sector", "", -EINVAL, "sector=: must be one of 512, 1024, 4k");
}
END_TEST

START_TEST(find_returns_the_row_of_that_name)
{
	ck_assert_ptr_eq(option_find(rows, "file"), &rows[0]);
	ck_assert_ptr_eq(option_find(rows, "label"), &rows[8]);
	ck_assert_ptr_null(option_find(rows, "colour"));
}
END_TEST

START_TEST(appended_rows_set_the_embedded_structure)
{
	struct {
		unsigned int dry;
		struct paint paint;
	} wall = {.paint.guard_before = 7};
	const struct option_row own[] = {{.name = "dry", .type = OPTION_UINT}, {.name = NULL}};
	struct option_row table[32] = {{.name = NULL}};
	char *error = NULL;

	options_append(table, 32, own, offsetof(typeof(wall), dry));
	options_append(table, 32, rows, offsetof(typeof(wall), paint));
	ck_assert_int_eq(option_set(table, &wall, "dry", "3", &error), 0);
	ck_assert_int_eq(option_set(table, &wall, "offset", "4k", &error), 0);
	ck_assert_uint_eq(wall.dry, 3);
	ck_assert_uint_eq(wall.paint.offset, 4096);
	ck_assert_uint_eq(wall.paint.guard_before, 7);
	ck_assert_str_eq(option_find(table, "wet")->name, "wet");
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "set", .begin = paint_init, .end = paint_fini},
		{.test = init_sets_every_field_to_its_default},
		{.test = free_leaves_null_and_may_be_repeated},
		{.test = set_takes_every_type},
		{.test = second_string_replaces_the_first_and_is_a_copy},
		{.test = unknown_name_is_told_apart_and_touches_nothing},
		{.test = other_words_for_on_and_off_are_known,
		 .last = sizeof(choices) / sizeof(choices[0])},
		{.test = choice_outside_its_list_is_refused_with_the_list},
		{.test = number_with_signs_blanks_or_garbage_is_refused},
		{.test = number_outside_its_range_is_refused_with_the_range},
		{.test = number_without_a_limit_stops_at_its_field},
		{.test = number_with_choices_takes_no_other},
		{.test = size_that_is_none_is_refused},
		{.test = size_outside_its_range_is_refused_with_the_range},
		{.test = size_with_choices_compares_values_not_texts},
		{.test = find_returns_the_row_of_that_name},
		{.test = appended_rows_set_the_embedded_structure},
		{0},
	};

	return suite_run("option", cases);
}
