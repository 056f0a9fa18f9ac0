/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan of a copy, what is told of its progress and its end, and the state of its target.
 */
#include "tool/backup/plan.h"

#include "tool/backup/backup_metrics.h"
#include "tool/backup/backup_state.h"
#include "tool/backup/progress.h"

#include "tests/lib/suite.h"

#include "common/cleanup.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static GArray *plan;

static void
begin(void)
{
	plan = plan_new();
}

static void
end(void)
{
	g_array_unref(plan);
}

static void
assert_part(GArray *parts, guint index, uint64_t offset, uint64_t length, bool zero)
{
	ck_assert_uint_lt(index, parts->len);
	ck_assert_uint_eq(plan_part(parts, index)->offset, offset);
	ck_assert_uint_eq(plan_part(parts, index)->length, length);
	ck_assert_int_eq(plan_part(parts, index)->zero, zero);
}

START_TEST(adjacent_parts_of_a_kind_are_joined)
{
	plan_add(plan, 0, 10, false);
	plan_add(plan, 10, 0, true);
	plan_add(plan, 10, 5, false);
	plan_add(plan, 15, 5, true);
	plan_add(plan, 20, 5, true);
	plan_add(plan, 30, 5, true);
	ck_assert_uint_eq(plan->len, 3);
	assert_part(plan, 0, 0, 15, false);
	assert_part(plan, 1, 15, 10, true);
	assert_part(plan, 2, 30, 5, true);
	ck_assert_uint_eq(plan_bytes(plan, false), 15);
	ck_assert_uint_eq(plan_bytes(plan, true), 15);
}
END_TEST

/* What is asked of a server may be more than what is wanted; what is taken from the answer isn't.
 */
START_TEST(only_what_is_wanted_is_taken)
{
	g_autoptr(GArray) told = plan_new(), bridged = NULL, taken = plan_new();

	plan_add(plan, 10, 10, false);
	plan_add(plan, 24, 6, false);
	plan_add(plan, 35, 5, false);
	bridged = plan_bridged(plan, 4);
	ck_assert_uint_eq(bridged->len, 2);
	assert_part(bridged, 0, 10, 20, false);
	assert_part(bridged, 1, 35, 5, false);
	plan_add(told, 0, 12, false);
	plan_add(told, 12, 10, true);
	plan_add(told, 22, 3, false);
	plan_add(told, 25, 5, true);
	plan_add(told, 35, 5, false);
	plan_add_common(taken, told, plan);
	ck_assert_uint_eq(taken->len, 5);
	assert_part(taken, 0, 10, 2, false);
	assert_part(taken, 1, 12, 8, true);
	assert_part(taken, 2, 24, 1, false);
	assert_part(taken, 3, 25, 5, true);
	assert_part(taken, 4, 35, 5, false);
}
END_TEST

START_TEST(pieces_cover_the_plan_once)
{
	const uint64_t zero_max = 1 << 20;
	struct plan_cursor cursor = {0};
	uint64_t data = 0, zeroes = 0, next = 0;
	struct part piece;

	plan_add(plan, 0, 3 * PLAN_DATA_MAX + 512, false);
	plan_add(plan, 3 * PLAN_DATA_MAX + 512, 5 << 20, true);
	while (plan_next(plan, &cursor, zero_max, &piece)) {
		ck_assert_uint_eq(piece.offset, next);
		ck_assert_uint_gt(piece.length, 0);
		ck_assert_uint_le(piece.length, piece.zero ? zero_max : PLAN_DATA_MAX);
		*(piece.zero ? &zeroes : &data) += piece.length;
		next += piece.length;
	}
	ck_assert_uint_eq(data, 3 * PLAN_DATA_MAX + 512);
	ck_assert_uint_eq(zeroes, 5 << 20);
	ck_assert_uint_eq(cursor.index, plan->len);
}
END_TEST

START_TEST(record_is_one_piece)
{
	const struct part record = {
		.offset = 512, .length = 2 * PLAN_DATA_MAX, .position = 300, .checksum = 9};
	struct plan_cursor cursor = {0};
	struct part piece;

	g_array_append_val(plan, record);
	ck_assert(plan_next(plan, &cursor, 1 << 20, &piece));
	ck_assert_uint_eq(piece.length, 2 * PLAN_DATA_MAX);
	ck_assert_uint_eq(piece.position, 300);
	ck_assert_uint_eq(piece.checksum, 9);
	ck_assert(!plan_next(plan, &cursor, 1 << 20, &piece));
}
END_TEST

START_TEST(the_rest_of_an_image_is_zeroes)
{
	GArray *all;

	plan_add(plan, 10, 10, false);
	plan_add(plan, 20, 10, true);
	plan_add(plan, 40, 10, false);
	all = plan_of_all(plan, 100);
	ck_assert_uint_eq(all->len, 5);
	assert_part(all, 0, 0, 10, true);
	assert_part(all, 1, 10, 10, false);
	assert_part(all, 2, 20, 20, true);
	assert_part(all, 3, 40, 10, false);
	assert_part(all, 4, 50, 50, true);
	g_array_unref(all);
}
END_TEST

START_TEST(bar_tells_rate_and_time_left)
{
	const struct progress progress = {.step = "copy", .total = 4000000000, .done = 1000000000};
	char *bar = progress_bar(&progress, 10, 79);
	char text[32];

	ck_assert_str_eq(bar,
			 "copy   [#######.......................]  25 %  100.0 MB/s  0:30 left");
	g_free(bar);
	ck_assert_str_eq(progress_duration(3723, text), "1:02:03");
	ck_assert_str_eq(progress_duration(59.9, text), "0:59");
	ck_assert_str_eq(progress_duration(1e9, text), "-:--");
}
END_TEST

START_TEST(bar_fits_any_width)
{
	const struct progress progress = {.step = "copy", .total = 4000000000, .done = 1000000000};
	static const struct {
		int columns;
		const char *text;
	} all[] = {
		{66, "copy   [#######.....................]  25 %  100.0 MB/s  0:30 left"},
		{45, "copy   [#......]  25 %  100.0 MB/s  0:30 left"},
		{40, "copy   [###...........]  25 %  0:30 left"},
		{24, "copy    25 %  0:30 left"},
		{20, "copy   [#....]  25 %"},
		{12, "copy    25 %"},
		{3, "cop"},
		{0, ""},
	};

	for (int columns = 0; columns < 200; columns++) {
		g_autofree char *bar = progress_bar(&progress, 10, columns);

		ck_assert_int_le((int)strlen(bar), columns);
		ck_assert(columns < 68 || strlen(bar) == 68);
	}
	for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
		g_autofree char *bar = progress_bar(&progress, 10, all[i].columns);

		ck_assert_str_eq(bar, all[i].text);
	}
}
END_TEST

START_TEST(error_follows_the_bar_on_its_own_line)
{
	struct progress progress = {.form = PROGRESS_BAR};
	char *text = NULL;
	size_t size;

	progress.out = open_memstream(&text, &size);
	ck_assert_ptr_nonnull(progress.out);
	progress_begin(&progress, "copy", 100);
	progress_fail(&progress);
	fflush(progress.out);
	ck_assert_uint_eq(size, 0);
	progress.begun -= G_USEC_PER_SEC;
	progress_add(&progress, 50);
	progress_fail(&progress);
	progress_fail(&progress);
	fclose(progress.out);
	ck_assert_ptr_nonnull(strstr(text, " 50 %"));
	ck_assert_ptr_eq(strchr(text, '\n'), text + size - 1);
	free(text);
}
END_TEST

START_TEST(bar_of_nothing_is_full)
{
	const struct progress progress = {.step = "copy"};
	char *bar = progress_bar(&progress, 0, 79);

	ck_assert_ptr_nonnull(strstr(bar, "100 %"));
	g_free(bar);
}
END_TEST

START_TEST(metrics_have_names_of_any_kind)
{
	const struct backup_metrics metrics = {
		.source = "a\"b\\c\nd", .target = "\xff", .begun = 5, .ended = 3, .failed = true};
	g_autofree char *text = backup_metrics_text(&metrics);

	ck_assert_ptr_nonnull(strstr(text,
				     "\nnbdloop_backup_last_run_failed{source=\"a\\\"b\\\\c\\nd\","
				     "target=\"\xef\xbf\xbd\"} 1\n"));
	/* The clock was put back. */
	ck_assert_ptr_nonnull(strstr(
		text, "duration_seconds{source=\"a\\\"b\\\\c\\nd\",target=\"\xef\xbf\xbd\"} 0\n"));
	ck_assert_ptr_null(strstr(text, "nbdloop_backup_kept"));
}
END_TEST

START_TEST(state_is_read_as_it_was_written)
{
	struct backup_state BACKUP_STATE_CLEANUP state = {
		.source = g_strdup("nbd://host/disk"),
		.bitmap = g_strdup("monday"),
		.size = UINT64_C(1) << 40,
		.complete = true,
		.id = {0xab, 1, 2, 0xff},
		.seconds = 1795000000,
		.modified = INT64_C(1795000000123456789),
	};
	struct backup_state BACKUP_STATE_CLEANUP seen = {.source = NULL};
	char *CLEANUP_FREE text = backup_state_text(&state);
	GError *error = NULL;

	ck_assert(backup_state_parse(&seen, text, &error));
	ck_assert_str_eq(seen.source, "nbd://host/disk");
	ck_assert_ptr_null(seen.target);
	ck_assert_str_eq(seen.bitmap, "monday");
	ck_assert_uint_eq(seen.size, UINT64_C(1) << 40);
	ck_assert(seen.complete);
	ck_assert_mem_eq(seen.id, state.id, DELTA_ID_SIZE);
	ck_assert_uint_eq(seen.seconds, 1795000000);
	ck_assert_int_eq(seen.modified, INT64_C(1795000000123456789));
}
END_TEST

START_TEST(other_states_are_refused_with_words)
{
	static const struct {
		const char *text, *wanted;
	} all[] = {
		{"", "it is no state of a backup"},
		{"{\"nbdloop-backup\": 1, \"source\": \"nbd://", "it is no state of a backup"},
		{"{\"nbdloop-backup\": 1}", "it is no state of a backup"},
		{"[]", "it is no state of a backup"},
		{"{\"nbdloop-backup\": 2}",
		 "it is of a later nbdloop (format 2), and this one knows only format 1"},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct backup_state BACKUP_STATE_CLEANUP seen = {.source = NULL};
		GError *error = NULL;

		ck_assert(!backup_state_parse(&seen, all[i].text, &error));
		ck_assert_str_eq(error->message, all[i].wanted);
		g_error_free(error);
	}
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "plan", .begin = begin, .end = end},
		{.test = adjacent_parts_of_a_kind_are_joined},
		{.test = only_what_is_wanted_is_taken},
		{.test = pieces_cover_the_plan_once},
		{.test = record_is_one_piece},
		{.test = the_rest_of_an_image_is_zeroes},
		{.name = "progress"},
		{.test = bar_tells_rate_and_time_left},
		{.test = bar_fits_any_width},
		{.test = bar_of_nothing_is_full},
		{.test = error_follows_the_bar_on_its_own_line},
		{.name = "state"},
		{.test = metrics_have_names_of_any_kind},
		{.test = state_is_read_as_it_was_written},
		{.test = other_states_are_refused_with_words},
		{0},
	};

	return suite_run("backup plan", cases);
}
