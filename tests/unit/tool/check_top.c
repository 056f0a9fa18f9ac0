/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of nbdloop top that need neither a terminal nor a server.
 */
#include "tool/top/frame.h"
#include "tool/top/row.h"
#include "tool/top/server_sockets.h"
#include "tool/top/watched.h"
#include "tool/top/terminal.h"
#include "tool/top/view.h"
#include "tool/top/watch.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- control sockets of servers */

static GPtrArray *paths;

static void
begin_paths(void)
{
	paths = g_ptr_array_new_with_free_func(g_free);
}

static void
end_paths(void)
{
	g_ptr_array_unref(paths);
}

static void
assert_paths(const char *words, size_t length, const char *wanted)
{
	g_autofree char *all = NULL;

	server_sockets_add(paths, words, length, "/srv/one");
	g_ptr_array_add(paths, NULL);
	all = g_strjoinv(" ", (char **)paths->pdata);
	ck_assert_str_eq(all, wanted);
}

#define ASSERT_PATHS(words, wanted) assert_paths(words, sizeof(words), wanted)

START_TEST(command_line_names_a_socket)
{
	ASSERT_PATHS("nbdloopd\0-U\0x.sock\0--control\0/run/a.ctl\0disk.img", "/run/a.ctl");
}
END_TEST

START_TEST(relative_paths_are_of_the_server)
{
	ASSERT_PATHS("nbdloopd\0--control=../a.ctl\0disk.img", "/srv/a.ctl");
}
END_TEST

START_TEST(another_users_server_has_absolute_paths_only)
{
	static const char words[] = "nbdloopd\0--control=/run/a.ctl\0--config=rel.conf\0",
			  relative[] = "nbdloopd\0--control=a.ctl\0";

	server_sockets_add(paths, words, sizeof(words), NULL);
	server_sockets_add(paths, relative, sizeof(relative), NULL);
	ck_assert_uint_eq(paths->len, 1);
	ck_assert_str_eq(paths->pdata[0], "/run/a.ctl");
}
END_TEST

START_TEST(parameter_of_nbdkit_names_a_socket)
{
	ASSERT_PATHS("nbdkit\0loop\0file=control\0control=/run/b.ctl", "/run/b.ctl");
}
END_TEST

START_TEST(other_words_name_none)
{
	ASSERT_PATHS("nbdloopd\0--controls=/a\0--control-x\0/b\0-control=/c\0control\0/d", "");
}
END_TEST

START_TEST(socket_is_listed_once)
{
	ASSERT_PATHS("nbdloopd\0--control=/a/../b\0--control=/b", "/b");
}
END_TEST

START_TEST(option_without_a_value_names_none)
{
	ASSERT_PATHS("nbdloopd\0--control", "");
}
END_TEST

/* A process can write anything over its command line. */
START_TEST(unfinished_words_are_left_alone)
{
	static const char words[] = {'a', 0, '-', '-', 'c', 'o', 'n', 't', 'r', 'o', 'l', '=', '/'};

	assert_paths(words, sizeof(words), "");
}
END_TEST

START_TEST(missing_configuration_is_no_error)
{
	ASSERT_PATHS("nbdloopd\0--config=/nowhere/x.conf\0--control=/a", "/a");
}
END_TEST

/* ---- keys */

static void
assert_keys(const char *bytes, size_t taken, size_t count, const int *wanted)
{
	g_autoptr(GArray) keys = g_array_new(FALSE, FALSE, sizeof(int));

	ck_assert_uint_eq(terminal_decode(bytes, strlen(bytes), keys), taken);
	ck_assert_uint_eq(keys->len, count);
	for (guint i = 0; i < count; i++)
		ck_assert_int_eq(g_array_index(keys, int, i), wanted[i]);
}

START_TEST(sequences_are_one_key)
{
	static const int keys[] = {'q', KEY_UP, KEY_PAGE_DOWN, KEY_UNKNOWN, KEY_DOWN, 'r'};

	assert_keys("q\033[A\033[6~\033[1;5C\033OBr", 18, 6, keys);
}
END_TEST

START_TEST(beginning_of_a_sequence_is_no_key)
{
	static const int keys[] = {'q'};

	assert_keys("q\033[5", 1, 1, keys);
	assert_keys("q\033", 1, 1, keys);
}
END_TEST

START_TEST(escape_before_another_key_is_itself)
{
	static const int keys[] = {KEY_ESCAPE, 'q'};

	assert_keys("\033q", 2, 2, keys);
}
END_TEST

/* ---- text of others on the screen */

static void
assert_cut(const char *text, unsigned int left, unsigned int columns, const char *wanted)
{
	g_autofree char *cut = frame_cut(text, left, columns);

	ck_assert_str_eq(cut, wanted);
	ck_assert(columns == 0 || frame_cells(cut) <= columns);
}

START_TEST(lines_are_cut_by_cells)
{
	assert_cut("abcdef", 0, 4, "abcd");
	assert_cut("abcdef", 2, 3, "cde");
	assert_cut("abcdef", 0, 0, "abcdef");
	assert_cut("abcdef", 9, 3, "");
	assert_cut("\xc3\xa9\xc3\xa9\xc3\xa9", 0, 2, "\xc3\xa9\xc3\xa9");
	/* A wide character that has only one cell left is left out. */
	assert_cut("a\xe6\xbc\xa2\xe6\xbc\xa2", 0, 4, "a\xe6\xbc\xa2");
}
END_TEST

START_TEST(nothing_is_a_command_for_the_terminal)
{
	assert_cut("a\033[2Jb", 0, 0, "a?[2Jb");
	assert_cut("\n\r\t\b\x7f", 0, 0, "?????");
	/* C1 control characters, bytes that are no UTF-8, and a mark that turns the line round. */
	assert_cut("\xc2\x9b"
		   "2J\xff\xe2\x80\xae",
		   0, 0, "?2J??");
}
END_TEST

/* The place of the word after the figures, if all of them are this large. */
static ptrdiff_t
place_after(double figure)
{
	struct row row = {.device = true,
			  .measured = true,
			  .name = (char *)"/dev/nbd0",
			  .engine = (char *)"io_uring",
			  .milliseconds = figure};
	struct frame frame = {.columns = 0};
	g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func(g_free);
	const char *line, *place;

	for (unsigned int op = FIGURES_READ; op <= FIGURES_WRITE; op++) {
		row.figures.ops[op].iops = figure;
		row.figures.ops[op].bytes_per_second = figure * 1e6;
	}
	frame_row(&frame, &row, lines);
	line = lines->pdata[0];
	place = strstr(line, "io_uring");
	ck_assert_ptr_nonnull(place);
	return place - line;
}

START_TEST(large_figures_stay_in_their_columns)
{
	static const double figures[] = {9.99,    99999.4,   99999.9,  123456,  999999.4,
					 1234567, 9999999.9, 12345678, 1.25e12, 1e90};
	ptrdiff_t place = place_after(1);

	for (size_t i = 0; i < G_N_ELEMENTS(figures); i++)
		ck_assert_msg(place_after(figures[i]) == place, "%g", figures[i]);
}
END_TEST

/* ---- what a server tells */

#define MANY 40000

static json_t *
status_of_many(void)
{
	json_t *status = json_object(), *exports = json_array();

	for (int i = 0; i < MANY; i++)
		json_array_append_new(exports, json_pack("{s:o}", "name", json_sprintf("%d", i)));
	json_object_set_new(status, "pid", json_integer(7));
	json_object_set_new(status, "exports", exports);
	return status;
}

/* A search for each of them in the answer before would take minutes. */
START_TEST(many_exports_hold_nothing_up)
{
	struct answer before = {.time = 1, .status = status_of_many()},
		      now = {.time = 2, .status = status_of_many()};
	struct watched source = {.name = (char *)"/run/x.ctl", .before = &before, .now = &now};
	g_autoptr(GPtrArray) rows = g_ptr_array_new_with_free_func((GDestroyNotify)row_free);

	rows_add(rows, &source);
	ck_assert_uint_eq(rows->len, MANY);
	ck_assert_str_eq(((struct row *)rows->pdata[MANY - 1])->name, "7:39999");
	json_decref(before.status);
	json_decref(now.status);
}
END_TEST

static GPtrArray *
rows_of_failure(int error, bool found)
{
	struct answer now = {.time = 1, .trouble = (char *)"it fails", .error = error};
	struct watched source = {.name = (char *)"/run/x.ctl", .found = found, .now = &now};
	GPtrArray *rows = g_ptr_array_new_with_free_func((GDestroyNotify)row_free);

	rows_add(rows, &source);
	return rows;
}

/* Unless the user has named it, a server that is gone is no line, and one of another user is only
 * counted. */
START_TEST(servers_that_cannot_be_asked_are_no_lines)
{
	static const int errors[] = {ENOENT, ECONNREFUSED, EACCES, EPERM, ETIMEDOUT};

	for (size_t i = 0; i < G_N_ELEMENTS(errors); i++) {
		g_autoptr(GPtrArray) found = rows_of_failure(errors[i], true),
				     named = rows_of_failure(errors[i], false);

		ck_assert_uint_eq(found->len, errors[i] == ETIMEDOUT);
		ck_assert_uint_eq(named->len, 1);
	}
}
END_TEST

START_TEST(all_servers_of_others_are_counted)
{
	struct answer denied = {.error = EACCES}, hangs = {.error = ETIMEDOUT};
	struct watched others = {.found = true, .now = &denied},
		       silent = {.found = true, .now = &hangs}, named = {.now = &denied},
		       new = {.found = true};
	const struct watch watch = {.sources = g_ptr_array_new()};

	g_ptr_array_add(watch.sources, &others);
	g_ptr_array_add(watch.sources, &others);
	g_ptr_array_add(watch.sources, &silent);
	g_ptr_array_add(watch.sources, &named);
	g_ptr_array_add(watch.sources, &new);
	ck_assert_uint_eq(watch_denied(&watch), 2);
	g_ptr_array_unref(watch.sources);
}
END_TEST

static json_t *
status_of_requests(int number)
{
	return json_pack("{s:i s:[{s:s s:i s:i s:i s:{s:i s:i s:i} s:{s:{s:i s:i s:i}}}]}", "pid",
			 7, "exports", "name", "disk", "limited_now", 2, "limited", number,
			 "limited_us", 3000 * number, "counters", "reads", number / 2, "read_bytes",
			 512 * number, "errors", 0, "answered", "read", "requests", number, "bytes",
			 1024 * number, "errors", number);
}

/* Requests of clients, operations on the disk, and what a limit holds back are different things. */
START_TEST(requests_and_operations_are_apart)
{
	struct answer before = {.time = 0, .status = status_of_requests(10)},
		      now = {.time = G_USEC_PER_SEC, .status = status_of_requests(110)};
	struct watched source = {.name = (char *)"/run/x.ctl", .before = &before, .now = &now};
	g_autoptr(GPtrArray) rows = g_ptr_array_new_with_free_func((GDestroyNotify)row_free),
			     lines = g_ptr_array_new_with_free_func(g_free);
	struct frame frame = {.columns = 80};
	const struct row *row;

	rows_add(rows, &source);
	row = rows->pdata[0];
	ck_assert(row_figure(row, ROW_READS) == 100 && row_figure(row, ROW_DISK) == 50);
	ck_assert(row_figure(row, ROW_READ_BANDWIDTH) == 102400 &&
		  row->figures.disk_bytes_per_second == 51200);
	ck_assert(row_figure(row, ROW_HELD) == 2 && row->errors == 110);
	ck_assert(row->figures.held_per_second == 100 && row->figures.held_milliseconds == 3);
	frame_row(&frame, row, lines);
	ck_assert_uint_eq(lines->len, frame_row_lines(row));
	ck_assert_uint_eq(lines->len, 2);
	ck_assert_str_eq(lines->pdata[1], "  2 held, 100.0/s wait 3 ms: a limit of each client");
	json_decref(before.status);
	json_decref(now.status);
}
END_TEST

/* ---- the view */

static struct view view;

static void
add_row(const char *name, double reads, double written, const char *trouble)
{
	struct row *row = g_new0(struct row, 1);

	row->device = row->measured = true;
	row->name = g_strdup(name);
	row->trouble = g_strdup(trouble);
	row->figures.ops[FIGURES_READ].iops = reads;
	row->figures.ops[FIGURES_WRITE].bytes_per_second = written;
	g_ptr_array_add(view.rows, row);
}

static void
begin_view(void)
{
	view_init(&view, ROW_IOPS, 3);
	add_row("/dev/nbd10", 0, 0, NULL);
	add_row("/dev/nbd9", 5, 1, NULL);
	add_row("/dev/nbd1", 7, 0, NULL);
	add_row("/dev/nbd2", 0, 9, "its guard was killed");
	view_sort(&view);
}

static void
end_view(void)
{
	view_fini(&view);
}

static void
assert_order(const char *wanted)
{
	g_autoptr(GString) names = g_string_new(NULL);

	for (guint i = 0; i < view.rows->len; i++)
		g_string_append_printf(names, "%s ", ((struct row *)view.rows->pdata[i])->name + 8);
	ck_assert_str_eq(names->str, wanted);
}

START_TEST(rows_are_sorted_by_the_key)
{
	assert_order("1 9 2 10 ");
	ck_assert_int_eq(view_key(&view, 'M'), VIEW_DRAW);
	assert_order("2 9 1 10 ");
	ck_assert_int_eq(view_key(&view, 'N'), VIEW_DRAW);
	assert_order("1 2 9 10 ");
	view_key(&view, 'r');
	assert_order("10 9 2 1 ");
	view_key(&view, 'P');
	/* What is alike keeps its order. */
	assert_order("2 10 9 1 ");
}
END_TEST

START_TEST(order_has_ends)
{
	for (unsigned int i = 0; i < 2 * ROW_ORDERS; i++)
		view_key(&view, '>');
	ck_assert_int_eq(view.order, ROW_CONNECTIONS);
	for (unsigned int i = 0; i < 2 * ROW_ORDERS; i++)
		view_key(&view, '<');
	ck_assert_int_eq(view.order, ROW_NAME);
}
END_TEST

START_TEST(delay_is_asked_for)
{
	view_key(&view, 'd');
	for (const char *at = "0.25x\x7f\r"; *at; at++)
		ck_assert_int_eq(view_key(&view, *at), VIEW_DRAW);
	ck_assert(view.delay == 0.25);
	view_key(&view, 's');
	view_key(&view, 'q');
	ck_assert_int_eq(view_key(&view, KEY_ESCAPE), VIEW_DRAW);
	ck_assert(view.delay == 0.25);
	ck_assert_int_eq(view_key(&view, 'q'), VIEW_END);
}
END_TEST

START_TEST(delays_are_numbers_in_a_range)
{
	double delay = 7;

	for (const char *const *text = (const char *const[]){"", "0", "0.09", "-1", "nan", "inf",
							     "86401", "3 ", "x", NULL};
	     *text; text++)
		ck_assert_msg(!view_parse_delay(*text, &delay) && delay == 7, "%s", *text);
	ck_assert(view_parse_delay("0.1", &delay) && delay == 0.1);
	ck_assert(view_parse_delay("86400", &delay) && delay == 86400);
}
END_TEST

START_TEST(screen_fits_the_terminal)
{
	for (unsigned int lines = 1; lines < 12; lines++) {
		for (unsigned int columns = 1; columns < 140; columns += 3) {
			GString *screen = view_screen(&view, columns, lines);
			unsigned int ends = 0;

			for (const char *at = screen->str; (at = strstr(at, "\r\n")); at++)
				ends++;
			ck_assert_uint_lt(ends, lines);
			g_string_free(screen, TRUE);
		}
	}
}
END_TEST

/* All figures, up to those of held requests. */
START_TEST(columns_fit_80_cells)
{
	struct frame frame = {.columns = 80};
	g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func(g_free);

	frame_headings(&frame, lines);
	ck_assert_ptr_nonnull(strstr(lines->pdata[0], " HELD"));
}
END_TEST

START_TEST(servers_of_others_are_counted)
{
	GString *screen;

	view.denied = 1;
	screen = view_screen(&view, 80, 20);
	ck_assert_ptr_nonnull(strstr(screen->str, "1 server: permission denied (run as root)"));
	g_string_free(screen, TRUE);
}
END_TEST

START_TEST(list_is_scrolled_to_its_ends)
{
	GString *screen;

	view_key(&view, 'N');
	view_key(&view, KEY_END);
	screen = view_screen(&view, 100, 6);
	ck_assert_ptr_null(strstr(screen->str, "/dev/nbd2"));
	ck_assert_ptr_nonnull(strstr(screen->str, "/dev/nbd9"));
	ck_assert_ptr_nonnull(strstr(screen->str, "/dev/nbd10"));
	ck_assert_uint_eq(view.first, 2);
	g_string_free(screen, TRUE);
	view_key(&view, KEY_UP);
	ck_assert_uint_eq(view.first, 1);
	view_key(&view, KEY_PAGE_UP);
	ck_assert_uint_eq(view.first, 0);
}
END_TEST

START_TEST(idle_rows_can_be_hidden)
{
	GString *screen;

	view_key(&view, 'i');
	screen = view_screen(&view, 100, 20);
	ck_assert_ptr_null(strstr(screen->str, "/dev/nbd10"));
	ck_assert_ptr_nonnull(strstr(screen->str, "/dev/nbd2"));
	g_string_free(screen, TRUE);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "sockets", .begin = begin_paths, .end = end_paths},
		{.test = command_line_names_a_socket},
		{.test = relative_paths_are_of_the_server},
		{.test = another_users_server_has_absolute_paths_only},
		{.test = parameter_of_nbdkit_names_a_socket},
		{.test = other_words_name_none},
		{.test = socket_is_listed_once},
		{.test = option_without_a_value_names_none},
		{.test = unfinished_words_are_left_alone},
		{.test = missing_configuration_is_no_error},
		{.name = "keys"},
		{.test = sequences_are_one_key},
		{.test = beginning_of_a_sequence_is_no_key},
		{.test = escape_before_another_key_is_itself},
		{.name = "text"},
		{.test = lines_are_cut_by_cells},
		{.test = nothing_is_a_command_for_the_terminal},
		{.test = large_figures_stay_in_their_columns},
		{.name = "servers"},
		{.test = many_exports_hold_nothing_up},
		{.test = servers_that_cannot_be_asked_are_no_lines},
		{.test = all_servers_of_others_are_counted},
		{.test = requests_and_operations_are_apart},
		{.name = "view", .begin = begin_view, .end = end_view},
		{.test = rows_are_sorted_by_the_key},
		{.test = order_has_ends},
		{.test = delay_is_asked_for},
		{.test = delays_are_numbers_in_a_range},
		{.test = screen_fits_the_terminal},
		{.test = columns_fit_80_cells},
		{.test = servers_of_others_are_counted},
		{.test = list_is_scrolled_to_its_ends},
		{.test = idle_rows_can_be_hidden},
		{0},
	};

	return suite_run("top", cases);
}
