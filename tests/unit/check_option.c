/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Option tables: from text to fields, back, and what people read.
 */
#include "common/option_row.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum color {
	COLOR_RED,
	COLOR_GREEN,
	COLOR_BLUE
};

struct paint {
	unsigned int guard_before;
	char *file;
	unsigned int color;
	unsigned int guard_color;
	uint64_t offset;
	uint64_t chunk;
	uint64_t sector;
	unsigned int depth;
	unsigned int guard_depth;
	unsigned int any;
	unsigned int port;
	char *label;
	char **coats;
	unsigned int wet;
};

#define FIELD(name_) offsetof(struct paint, name_)

static const char *const colors[] = {"red", "green", "blue", NULL};
static const char *const sectors[] = {"512", "1024", "4k", NULL};
static const char *const switches[] = {"off", "on", NULL};
static const char *const ports[] = {"80", "443", NULL};

static const struct option_row rows[] = {
	{.name = "file",
	 .type = OPTION_STRING,
	 .field = FIELD(file),
	 .arg = "FILE",
	 .help = "what to paint",
	 .manual = "Paint FILE.\n"},
	{.name = "color",
	 .type = OPTION_CHOICE,
	 .field = FIELD(color),
	 .initial = "green",
	 .choices = colors,
	 .arg = "red|green|blue",
	 .help = "its color",
	 .manual = "The color.\n\nIt dries.\n"},
	{.name = "offset",
	 .type = OPTION_SIZE,
	 .field = FIELD(offset),
	 .arg = "SIZE",
	 .help = "where to begin",
	 .manual = "Begin there.\n"},
	{.name = "chunk",
	 .type = OPTION_SIZE,
	 .field = FIELD(chunk),
	 .initial = "64k",
	 .min = 4096,
	 .max = 1 << 20,
	 .arg = "SIZE",
	 .help = "how much at once",
	 .manual = "At once.\n"},
	{.name = "sector",
	 .type = OPTION_SIZE,
	 .field = FIELD(sector),
	 .initial = "512",
	 .choices = sectors,
	 .arg = "SIZE",
	 .help = "grain",
	 .manual = "Grain.\n"},
	{.name = "depth",
	 .type = OPTION_UINT,
	 .field = FIELD(depth),
	 .initial = "8",
	 .min = 1,
	 .max = 128,
	 .arg = "N",
	 .help = "layers",
	 .manual = "Layers.\n"},
	{.name = "any",
	 .type = OPTION_UINT,
	 .field = FIELD(any),
	 .arg = "N",
	 .help = "any number",
	 .manual = "Any.\n"},
	{.name = "port",
	 .type = OPTION_UINT,
	 .field = FIELD(port),
	 .initial = "80",
	 .choices = ports,
	 .arg = "N",
	 .help = "port",
	 .manual = "Port.\n"},
	{.name = "label",
	 .type = OPTION_STRING,
	 .field = FIELD(label),
	 .initial = "wet paint",
	 .arg = "TEXT",
	 .help = "warning sign",
	 .manual = "Sign.\n"},
	{.name = "coat",
	 .letter = 'c',
	 .type = OPTION_LIST,
	 .field = FIELD(coats),
	 .arg = "TEXT",
	 .help = "a further coat",
	 .manual = "One more.\n"},
	{.name = "wet",
	 .letter = 'w',
	 .type = OPTION_CHOICE,
	 .field = FIELD(wet),
	 .initial = "off",
	 .choices = switches,
	 .alone = "on",
	 .arg = "on|off",
	 .help = "don't touch",
	 .manual = "Don't.\n"},
	{.name = NULL},
};

static struct paint paint;

static void
paint_init(void)
{
	memset(&paint, 0xaa, sizeof(paint));
	ck_assert_int_eq(options_init(rows, &paint), 0);
}

static void
paint_fini(void)
{
	ck_assert_uint_eq(paint.guard_before, 0xaaaaaaaa);
	ck_assert_uint_eq(paint.guard_color, 0xaaaaaaaa);
	ck_assert_uint_eq(paint.guard_depth, 0xaaaaaaaa);
	options_free(rows, &paint);
}

static void
assert_set(const char *name, const char *value)
{
	char *error = NULL;

	ck_assert_msg(option_set(rows, &paint, name, value, &error) == 0, "%s=%s: %s", name, value,
		      error);
	ck_assert_ptr_null(error);
}

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

static void
assert_text(const char *name, const char *expected)
{
	char *text = option_value_text(option_find(rows, name), &paint);

	ck_assert_ptr_nonnull(text);
	ck_assert_str_eq(text, expected);
	free(text);
}

START_TEST(value_text_is_the_options_own_form)
{
	assert_text("file", "");
	assert_set("file", "a b");
	assert_text("file", "a b");
	assert_text("color", "green");
	assert_set("color", "blue");
	assert_text("color", "blue");
	assert_text("offset", "0");
	assert_text("chunk", "64k");
	assert_text("depth", "8");
	assert_text("any", "0");
	assert_text("port", "80");
}
END_TEST

START_TEST(value_text_of_a_size_with_choices_is_the_choice)
{
	assert_set("sector", "1k");
	assert_text("sector", "1024");
	assert_set("sector", "4096");
	assert_text("sector", "4k");
	paint.sector = 0; /* set by the program, not by option_set() */
	assert_text("sector", "0");
}
END_TEST

START_TEST(list_gets_longer_with_each_setting)
{
	ck_assert_ptr_null(paint.coats);
	assert_text("coat", "");
	assert_set("coat", "first");
	assert_set("coat", "second, thick");
	assert_set("coat", "");
	ck_assert_str_eq(paint.coats[0], "first");
	ck_assert_str_eq(paint.coats[1], "second, thick");
	ck_assert_str_eq(paint.coats[2], "");
	ck_assert_ptr_null(paint.coats[3]);
	assert_text("coat", "first, second, thick, ");
	options_free(rows, &paint);
	ck_assert_ptr_null(paint.coats);
}
END_TEST

START_TEST(every_value_text_can_be_set_again)
{
	assert_set("file", "x");
	for (const struct option_row *row = rows; row->name; row++) {
		char *text = option_value_text(row, &paint);

		ck_assert_ptr_nonnull(text);
		assert_set(row->name, text);
		free(text);
	}
	ck_assert_uint_eq(paint.chunk, 65536);
	ck_assert_uint_eq(paint.color, COLOR_GREEN);
	ck_assert_str_eq(paint.label, "wet paint");
}
END_TEST

static char *
print_rows(void (*print)(FILE *, const struct option_row *), const struct option_row *table)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(out);
	print(out, table);
	ck_assert_int_eq(fclose(out), 0);
	return text;
}

START_TEST(help_is_aligned_and_names_defaults)
{
	char *text = print_rows(options_print_help, rows);

	ck_assert_str_eq(text, "    file=FILE              what to paint\n"
			       "    color=red|green|blue   its color (default: green)\n"
			       "    offset=SIZE            where to begin\n"
			       "    chunk=SIZE             how much at once (default: 64k)\n"
			       "    sector=SIZE            grain (default: 512)\n"
			       "    depth=N                layers (default: 8)\n"
			       "    any=N                  any number\n"
			       "    port=N                 port (default: 80)\n"
			       "    label=TEXT             warning sign (default: wet paint)\n"
			       "    coat=TEXT              a further coat\n"
			       "    wet=on|off             don't touch (default: off)\n");
	free(text);
}
END_TEST

START_TEST(help_of_switches_shows_letters_and_leaves_out_needless_values)
{
	char *text = print_rows(options_print_switches, rows);

	ck_assert_ptr_nonnull(strstr(text, "    --file=FILE              what to paint\n"));
	ck_assert_ptr_nonnull(
		strstr(text, "    --color=red|green|blue   its color (default: green)\n"));
	ck_assert_ptr_nonnull(strstr(text, "    -c, --coat=TEXT          a further coat\n"));
	ck_assert_ptr_nonnull(strstr(text, "    -w, --wet                don't touch\n"));
	free(text);
	text = print_rows(options_print_switches_pod, rows);
	ck_assert_ptr_nonnull(strstr(
		text, "=item B<--file=>FILE\n\nPaint FILE.\n\n=item B<--color=>red|green|blue\n"));
	ck_assert_ptr_nonnull(strstr(
		text,
		"=item B<-c>, B<--coat=>TEXT\n\nOne more.\n\n=item B<-w>, B<--wet>\n\nDon't.\n"));
	free(text);
}
END_TEST

START_TEST(pod_has_an_item_per_row_and_names_defaults)
{
	static const struct option_row two[] = {
		{.name = "file",
		 .type = OPTION_STRING,
		 .arg = "FILE",
		 .help = "h",
		 .manual = "Paint FILE.\n"},
		{.name = "depth",
		 .type = OPTION_UINT,
		 .initial = "8",
		 .arg = "N",
		 .help = "h",
		 .manual = "Layers.\n\nMany.\n"},
		{.name = NULL},
	};
	char *text = print_rows(options_print_pod, two);

	ck_assert_str_eq(text, "=item B<file=>FILE\n\nPaint FILE.\n\n"
			       "=item B<depth=>N\n\nLayers.\n\nMany.\n\n"
			       "The default is C<8>.\n\n");
	free(text);
}
END_TEST

START_TEST(empty_table_prints_nothing)
{
	static const struct option_row none[] = {{.name = NULL}};
	char *help = print_rows(options_print_help, none),
	     *pod = print_rows(options_print_pod, none);

	ck_assert_str_eq(help, "");
	ck_assert_str_eq(pod, "");
	free(help);
	free(pod);
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
		{.test = choice_outside_its_list_is_refused_with_the_list},
		{.test = number_with_signs_blanks_or_garbage_is_refused},
		{.test = number_outside_its_range_is_refused_with_the_range},
		{.test = number_without_a_limit_stops_at_its_field},
		{.test = number_with_choices_takes_no_other},
		{.test = size_that_is_none_is_refused},
		{.test = size_outside_its_range_is_refused_with_the_range},
		{.test = size_with_choices_compares_values_not_texts},
		{.name = "show", .begin = paint_init, .end = paint_fini},
		{.test = find_returns_the_row_of_that_name},
		{.test = value_text_is_the_options_own_form},
		{.test = value_text_of_a_size_with_choices_is_the_choice},
		{.test = every_value_text_can_be_set_again},
		{.test = list_gets_longer_with_each_setting},
		{.test = help_is_aligned_and_names_defaults},
		{.test = help_of_switches_shows_letters_and_leaves_out_needless_values},
		{.test = pod_has_an_item_per_row_and_names_defaults},
		{.test = empty_table_prints_nothing},
		{0},
	};

	return suite_run("option", cases);
}
