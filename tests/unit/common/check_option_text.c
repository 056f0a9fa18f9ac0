/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Option tables: from fields to text, help and heads for the manual.
 */
#include "common/option_row.h"

#include "tests/lib/suite.h"
#include "tests/unit/common/paint_options.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

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
print_rows(void (*print)(FILE *, const struct option_row *, bool), const struct option_row *table,
	   bool switches)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(out);
	print(out, table, switches);
	ck_assert_int_eq(fclose(out), 0);
	return text;
}

START_TEST(help_is_aligned_and_names_defaults)
{
	char *text = print_rows(options_print_help, rows, false);

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
	char *text = print_rows(options_print_help, rows, true);

	ck_assert_ptr_nonnull(strstr(text, "    --file=FILE              what to paint\n"));
	ck_assert_ptr_nonnull(
		strstr(text, "    --color=red|green|blue   its color (default: green)\n"));
	ck_assert_ptr_nonnull(strstr(text, "    -c, --coat=TEXT          a further coat\n"));
	ck_assert_ptr_nonnull(strstr(text, "    -w, --wet                don't touch\n"));
	free(text);
	text = print_rows(options_print_pod, rows, true);
	ck_assert_ptr_nonnull(strstr(
		text,
		"=item B<--file=>FILE\n\n__TEXT file__\n\n=item B<--color=>red|green|blue\n"));
	ck_assert_ptr_nonnull(strstr(
		text, "=item B<-c>, B<--coat=>TEXT\n\n__TEXT coat__\n\n=item B<-w>, B<--wet>\n\n"));
	free(text);
}
END_TEST

START_TEST(help_of_what_is_on_by_default_shows_how_to_switch_it_off)
{
	static const char *const off_on[] = {"off", "on", NULL};
	static const struct option_row one[] = {
		{.name = "check",
		 .type = OPTION_CHOICE,
		 .choices = off_on,
		 .initial = "on",
		 .alone = "on",
		 .arg = "on|off",
		 .help = "look"},
		{.name = NULL},
	};
	char *help = print_rows(options_print_help, one, true),
	     *pod = print_rows(options_print_pod, one, true);

	ck_assert_str_eq(help, "    --check[=on|off]   look (default: on)\n");
	ck_assert_str_eq(
		pod, "=item B<--check>[=on|off]\n\n__TEXT check__\n\nThe default is C<on>.\n\n");
	free(help);
	free(pod);
}
END_TEST

START_TEST(pod_has_an_item_per_row_and_names_defaults)
{
	static const struct option_row two[] = {
		{.name = "file", .type = OPTION_STRING, .arg = "FILE", .help = "h"},
		{.name = "depth", .type = OPTION_UINT, .initial = "8", .arg = "N", .help = "h"},
		{.name = NULL},
	};
	char *text = print_rows(options_print_pod, two, false);

	ck_assert_str_eq(text, "=item B<file=>FILE\n\n__TEXT file__\n\n"
			       "=item B<depth=>N\n\n__TEXT depth__\n\n"
			       "The default is C<8>.\n\n");
	free(text);
}
END_TEST

START_TEST(empty_table_prints_nothing)
{
	static const struct option_row none[] = {{.name = NULL}};
	char *help = print_rows(options_print_help, none, false),
	     *pod = print_rows(options_print_pod, none, false);

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
		{.name = "show", .begin = paint_init, .end = paint_fini},
		{.test = value_text_is_the_options_own_form},
		{.test = value_text_of_a_size_with_choices_is_the_choice},
		{.test = every_value_text_can_be_set_again},
		{.test = list_gets_longer_with_each_setting},
		{.test = help_is_aligned_and_names_defaults},
		{.test = help_of_switches_shows_letters_and_leaves_out_needless_values},
		{.test = help_of_what_is_on_by_default_shows_how_to_switch_it_off},
		{.test = pod_has_an_item_per_row_and_names_defaults},
		{.test = empty_table_prints_nothing},
		{0},
	};

	return suite_run("option_text", cases);
}
