/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dates of backups as people write them, which backups are kept, and what several of them hold
 * together.
 */
#include "tool/backup/backup_date.h"
#include "tool/backup/plan.h"
#include "tool/backup/retention.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define DAY UINT64_C(86400)

static uint64_t
seconds_of(const char *date)
{
	g_autoptr(GTimeZone) zone = g_time_zone_new_local();
	g_autoptr(GDateTime) read = g_date_time_new_from_iso8601(date, zone);

	ck_assert_msg(read, "%s", date);
	return (uint64_t)g_date_time_to_unix(read);
}

static void
begin_in_berlin(void)
{
	setenv("TZ", "Europe/Berlin", 1);
}

/* In Cairo, 24 April 2026 begins at one o'clock. */
START_TEST(day_without_a_midnight_ends_before_the_next_one)
{
	static const char *const all[][2] = {
		{"2026-04-23", "2026-04-23T21:59:59Z"},
		{"2026-04-24", "2026-04-24T20:59:59Z"},
		{"today", "2026-04-24T20:59:59Z"},
		{"yesterday", "2026-04-23T21:59:59Z"},
	};
	uint64_t now;

	setenv("TZ", "Africa/Cairo", 1);
	now = seconds_of("2026-04-24T12:00:00");
	for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
		uint64_t seconds;

		ck_assert(backup_date_parse(all[i][0], now, &seconds, NULL));
		ck_assert_msg(seconds == seconds_of(all[i][1]), "%s", all[i][0]);
	}
}
END_TEST

START_TEST(dates_reach_to_their_ends)
{
	static const struct {
		const char *text, *end;
	} all[] = {
		{"yesterday", "2026-11-27T23:59:59"},
		{"today", "2026-11-28T23:59:59"},
		{"2026-11-27", "2026-11-27T23:59:59"},
		{"2026-10-25", "2026-10-25T23:59:59"}, /* has 25 hours */
		{"2026-03-29", "2026-03-29T23:59:59"}, /* has 23 hours */
		{"2024-02-29", "2024-02-29T23:59:59"},
		{"2026-11-27 18:00", "2026-11-27T18:00:59"},
		{"2026-11-27T18:00", "2026-11-27T18:00:59"},
		{"2026-11-27 18:00:05", "2026-11-27T18:00:05"},
		{"2026-11-27T17:00:05Z", "2026-11-27T18:00:05"},
		{"2026-11-27T18:00:05+01:00", "2026-11-27T18:00:05"},
	};
	const uint64_t now = seconds_of("2026-11-28T22:10:00");

	for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
		g_autoptr(GError) error = NULL;
		uint64_t seconds;

		ck_assert(backup_date_is(all[i].text));
		ck_assert_msg(backup_date_parse(all[i].text, now, &seconds, &error), "%s",
			      all[i].text);
		ck_assert_msg(seconds == seconds_of(all[i].end), "%s", all[i].text);
	}
}
END_TEST

START_TEST(other_texts_are_no_dates)
{
	static const char *const all[] = {
		"tomorrow",          "2026-02-30", "2026-13-01",      "2026-11-27 24:30",
		"2026-11-27 18",     "2026-11-2",  "26-11-27",        "2026-11-27x",
		"2026-11-27 18:00x", "-1",         "yesterday ",      " ",
		"1969-01-01",        "2026/11/27", "2026-11-27 18:0", "99999-01-01",
	};

	for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
		g_autoptr(GError) error = NULL;
		uint64_t seconds;

		ck_assert_msg(!backup_date_parse(all[i], 1795000000, &seconds, &error), "%s",
			      all[i]);
		ck_assert_ptr_nonnull(strstr(error->message, ": must be the number of a backup"));
	}
	ck_assert(!backup_date_is("20261127"));
}
END_TEST

START_TEST(dates_are_written_as_they_are_read)
{
	g_autofree char *text = backup_date_text(seconds_of("2026-11-27T18:00:05"));
	g_autofree char *iso = backup_date_iso(seconds_of("2026-11-27T18:00:05"));
	g_autofree char *late = backup_date_text(UINT64_MAX);

	ck_assert_str_eq(text, "2026-11-27 18:00:05");
	ck_assert_str_eq(iso, "2026-11-27T18:00:05+01:00");
	ck_assert_ptr_nonnull(late);
}
END_TEST

/* Two backups each day, at 1 and 23 o'clock. */
static void
assert_kept(struct retention retention, const char *wanted)
{
	uint64_t seconds[14];
	bool keep[14];
	char seen[15] = "";

	/* From Thursday on. */
	for (size_t i = 0; i < G_N_ELEMENTS(seconds); i++)
		seconds[i] = seconds_of("2026-11-19T01:00:00") + i / 2 * DAY + i % 2 * 22 * 3600;
	retention_choose(&retention, seconds, G_N_ELEMENTS(seconds), keep);
	for (size_t i = 0; i < G_N_ELEMENTS(seconds); i++)
		seen[i] = keep[i] ? 'x' : '.';
	ck_assert_str_eq(seen, wanted);
}

START_TEST(rules_keep_what_they_say)
{
	assert_kept((struct retention){0}, "xxxxxxxxxxxxxx");
	assert_kept((struct retention){.last = 3}, "...........xxx");
	assert_kept((struct retention){.last = 99}, "xxxxxxxxxxxxxx");
	assert_kept((struct retention){.daily = 2}, "...........x.x");
	assert_kept((struct retention){.weekly = 9}, ".......x.....x");
	assert_kept((struct retention){.last = 2, .daily = 2, .weekly = 2}, ".......x...xxx");
}
END_TEST

/* Plans of random parts, and what a byte holds by the newest of them that has it. */
START_TEST(newer_parts_hide_older_ones)
{
	enum {
		SIZE = 64,
		LAYERS = 4
	};
	int model[SIZE]; /* layer, in tens, and the byte's place in its record */

	for (int round = 0; round < 2000; round++) {
		GArray *all = plan_new();

		memset(model, -1, sizeof(model));
		for (uint32_t layer = 0; layer < LAYERS; layer++) {
			g_autoptr(GArray) own = plan_new();
			GArray *both;

			for (uint64_t at = (uint64_t)rand() % 9; at < SIZE;) {
				struct part part = {.offset = at, .layer = layer, .position = 1};

				part.length = (uint64_t)rand() % 20 + 1;
				part.length = MIN(part.length, SIZE - at);
				part.record = (uint32_t)part.length;
				part.zero = rand() % 3 == 0;
				part.position = !part.zero;
				g_array_append_val(own, part);
				for (uint64_t i = 0; i < part.length; i++)
					model[at + i] = (int)(layer * 100 + (part.zero ? 99 : i));
				at += part.length + (uint64_t)rand() % 15;
			}
			both = plan_overlay(own, all);
			g_array_unref(all);
			all = both;
		}
		for (guint i = 0, at = 0; i < all->len; i++) {
			const struct part *part = plan_part(all, i);

			ck_assert_uint_ge(part->offset, at);
			for (; at < part->offset; at++)
				ck_assert_int_eq(model[at], -1);
			for (uint64_t j = 0; j < part->length; j++, at++)
				ck_assert_int_eq(model[at],
						 (int)(part->layer * 100 +
						       (part->zero ? 99 : part->skip + j)));
			ck_assert(part->zero || part->skip + part->length <= part->record);
		}
		g_array_unref(all);
	}
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "dates", .begin = begin_in_berlin},
		{.test = day_without_a_midnight_ends_before_the_next_one},
		{.test = dates_reach_to_their_ends},
		{.test = other_texts_are_no_dates},
		{.test = dates_are_written_as_they_are_read},
		{.test = rules_keep_what_they_say},
		{.test = newer_parts_hide_older_ones},
		{0},
	};

	return suite_run("backup dates", cases);
}
