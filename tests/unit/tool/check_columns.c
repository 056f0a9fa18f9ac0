/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The columns of the list, as text and JSON.
 */
#include "tool/show/columns.h"

#include "tests/lib/suite.h"
#include "tests/unit/tool/system_tree.h"

#include "tool/failure.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static GPtrArray *rows;
static char *text;

/* A possible answer of a server: a JSON object without its braces. */
static void
add_row(const char *name, const char *image)
{
	struct listing *listing = g_new0(struct listing, 1);

	listing->device = device_read(name, NULL);
	ck_assert_ptr_nonnull(listing->device);
	if (image) {
		g_autofree char *status = g_strdup_printf(
			"{\"program\":\"nbdloopd\",\"pid\":813,\"exports\":[{%s}]}", image);
		json_auto_t *root = json_loads(status, 0, NULL);

		ck_assert_ptr_nonnull(root);
		listing->server = g_strdup("nbdloopd");
		listing->status = json_incref(root);
		listing->image = json_array_get(json_object_get(listing->status, "exports"), 0);
	}
	g_ptr_array_add(rows, listing);
}

#define IMAGE                                                                                               \
	"\"file\":\"/srv/my disk.img\",\"device\":\"8:1\",\"inode\":77,\"offset\":1048576,\"sizelimit\":0," \
	"\"direct_io\":true,\"connections\":2,\"engine\":\"io_uring\",\"poll\":false"

static void
free_row(gpointer listing)
{
	listing_free(listing);
}

static void
begin(void)
{
	rows = g_ptr_array_new_with_free_func(free_row);
}

static void
end(void)
{
	g_ptr_array_unref(rows);
	free(text);
}

/* The output for these columns; NULL: for all. */
static const char *
printed(const char *names, unsigned int flags)
{
	g_autoptr(GPtrArray) columns = names ? columns_parse(names, NULL) : columns_all();
	size_t size;
	FILE *out;

	free(text);
	out = open_memstream(&text, &size);
	ck_assert_ptr_nonnull(columns);
	columns_print(out, columns, rows, flags);
	ck_assert_int_eq(fclose(out), 0);
	return text;
}

static json_t *
row_object(const char *names)
{
	g_autoptr(GPtrArray) columns = names ? columns_parse(names, NULL) : columns_all();

	return columns_object(columns, rows->pdata[0]);
}

START_TEST(table_is_aligned_with_numbers_to_the_right)
{
	add_row("nbd0", IMAGE);
	add_row("nbd10", NULL);
	ck_assert_str_eq(printed("NAME,OFFSET,RO,BACK-FILE", 0),
			 "NAME        OFFSET RO BACK-FILE\n"
			 "/dev/nbd0  1048576  0 /srv/my disk.img\n"
			 "/dev/nbd10          0 nbd://server.example/disk\n");
	ck_assert_str_eq(printed("name,back-ino", COLUMNS_NO_HEADINGS),
			 "/dev/nbd0  77\n/dev/nbd10\n");
}
END_TEST

START_TEST(raw_has_one_blank_between_columns_and_none_in_them)
{
	add_row("nbd0", IMAGE);
	ck_assert_str_eq(printed("NAME,BACK-FILE,DIO,MAJ:MIN", COLUMNS_RAW),
			 "NAME BACK-FILE DIO MAJ:MIN\n/dev/nbd0 /srv/my\\x20disk.img 1 43:0\n");
}
END_TEST

START_TEST(no_text_can_reach_the_terminal_as_a_command)
{
	add_row("nbd0", "\"file\":\"/srv/\\u001b[2J\\n.img\"");
	ck_assert_str_eq(printed("BACK-FILE", COLUMNS_NO_HEADINGS), "/srv/\\x1b[2J\\x0a.img\n");
}
END_TEST

START_TEST(wide_characters_count_once)
{
	add_row("nbd0", "\"file\":\"/srv/näme\"");
	add_row("nbd1", "\"file\":\"/srv/longer\"");
	ck_assert_str_eq(printed("BACK-FILE,RO", COLUMNS_NO_HEADINGS),
			 "/srv/näme   0\n/srv/longer 1\n");
}
END_TEST

START_TEST(nothing_attached_prints_nothing)
{
	ck_assert_str_eq(printed("NAME", 0), "");
}
END_TEST

START_TEST(plus_adds_to_the_default_columns)
{
	add_row("nbd0", IMAGE);
	ck_assert_str_eq(printed("+SERVER,ENGINE", COLUMNS_RAW),
			 "NAME SIZELIMIT OFFSET RO BACK-FILE DIO LOG-SEC SERVER ENGINE\n"
			 "/dev/nbd0 0 1048576 0 /srv/my\\x20disk.img 1 512 nbdloopd io_uring\n");
}
END_TEST

START_TEST(unknown_column_is_named)
{
	static const char *const lists[] = {"NAME,COLOUR", "+COLOUR", "COLOUR,NAME"};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		GError *error = NULL;

		ck_assert_ptr_null(columns_parse(lists[i], &error));
		ck_assert(failure_is(error, EINVAL));
		ck_assert_msg(strstr(error->message, "unknown column: COLOUR;"), "%s",
			      error->message);
		g_error_free(error);
	}
}
END_TEST

START_TEST(column_of_losetup_that_nobody_could_fill_says_why)
{
	GError *error = NULL;

	ck_assert_ptr_null(columns_parse("NAME,autoclear", &error));
	ck_assert_msg(
		strstr(error->message, "there is no column AUTOCLEAR: the kernel doesn't report"),
		"%s", error->message);
	g_clear_error(&error);
	ck_assert_ptr_null(columns_parse("REF", &error));
	ck_assert_msg(strstr(error->message, "there is no column REF: "), "%s", error->message);
	g_clear_error(&error);
}
END_TEST

START_TEST(json_has_types_and_nulls)
{
	static const char *const flags[] = {"dio", "poll", "ro", "partscan"};
	json_t *object;

	add_row("nbd0", IMAGE);
	object = row_object(NULL);
	ck_assert_str_eq(json_string_value(json_object_get(object, "name")), "/dev/nbd0");
	ck_assert_int_eq(json_integer_value(json_object_get(object, "offset")), 1 << 20);
	ck_assert_int_eq(json_integer_value(json_object_get(object, "back-ino")), 77);
	ck_assert_str_eq(json_string_value(json_object_get(object, "back-maj:min")), "8:1");
	ck_assert_int_eq(json_integer_value(json_object_get(object, "back-maj")), 8);
	ck_assert_int_eq(json_integer_value(json_object_get(object, "back-min")), 1);
	ck_assert_str_eq(json_string_value(json_object_get(object, "maj:min")), "43:0");
	ck_assert_int_eq(json_integer_value(json_object_get(object, "maj")), 43);
	ck_assert_int_eq(json_integer_value(json_object_get(object, "min")), 0);
	ck_assert_int_eq(json_integer_value(json_object_get(object, "size")), 64 << 20);
	ck_assert_int_eq(json_integer_value(json_object_get(object, "pid")), 812);
	ck_assert_int_eq(json_integer_value(json_object_get(object, "server-pid")), 813);
	ck_assert_int_eq(json_integer_value(json_object_get(object, "connections")), 2);
	ck_assert_int_eq(json_integer_value(json_object_get(object, "log-sec")), 512);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		json_t *flag = json_object_get(object, flags[i]);

		ck_assert_msg(json_is_boolean(flag), "%s", flags[i]);
	}
	ck_assert(json_is_true(json_object_get(object, "dio")) &&
		  !json_is_true(json_object_get(object, "poll")));
	ck_assert(!json_is_true(json_object_get(object, "ro")) &&
		  json_is_true(json_object_get(object, "partscan")));
	json_decref(object);
	g_ptr_array_set_size(rows, 0);

	/* A device of another program, without any server's answer. */
	add_row("nbd1", NULL);
	object = row_object(NULL);
	ck_assert(json_is_null(json_object_get(object, "offset")) &&
		  json_is_null(json_object_get(object, "back-file")));
	ck_assert(json_is_null(json_object_get(object, "server")) &&
		  json_is_null(json_object_get(object, "backend")));
	ck_assert(json_is_null(json_object_get(object, "back-maj")) &&
		  json_is_null(json_object_get(object, "back-min")));
	ck_assert(json_is_true(json_object_get(object, "ro")));
	json_decref(object);
}
END_TEST

START_TEST(json_of_an_identifier_that_is_not_utf8_is_utf8)
{
	json_t *object;

	tree_write("sys/block/nbd1/backend", "disk \xff\n");
	add_row("nbd1", NULL);
	object = row_object("BACKEND");
	ck_assert_str_eq(json_string_value(json_object_get(object, "backend")),
			 "disk \xef\xbf\xbd");
	json_decref(object);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "output",
		 .begin_once = tree_new,
		 .end_once = tree_free,
		 .begin = tree_begin},
		{.begin = begin, .end = end},
		{.test = table_is_aligned_with_numbers_to_the_right},
		{.test = raw_has_one_blank_between_columns_and_none_in_them},
		{.test = no_text_can_reach_the_terminal_as_a_command},
		{.test = wide_characters_count_once},
		{.test = nothing_attached_prints_nothing},
		{.test = plus_adds_to_the_default_columns},
		{.test = unknown_column_is_named},
		{.test = column_of_losetup_that_nobody_could_fill_says_why},
		{.test = json_has_types_and_nulls},
		{.test = json_of_an_identifier_that_is_not_utf8_is_utf8},
		{0},
	};

	return suite_run("columns", cases);
}
