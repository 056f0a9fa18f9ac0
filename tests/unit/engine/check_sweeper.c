/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sweeper: pages that requests have left in the page cache go, their data and the pages of
 * others stay.
 */
#include "engine/io/sweeper.h"

#include "tests/lib/suite.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <stdint.h>
#include <unistd.h>

#define SIZE (1u << 20)

static int file;
static struct sweeper *sweeper;

static void
begin(void)
{
	file = scratch_file(SIZE);
	scratch_fill(file, 0, SIZE);
	sweeper = NULL;
}

static void
end(void)
{
	sweeper_free(sweeper);
	close(file);
}

static void
read_all(void)
{
	static char bytes[SIZE];

	ck_assert_int_eq(pread(file, bytes, SIZE, 0), SIZE);
}

START_TEST(clean_pages_are_dropped)
{
	scratch_drop_cache(file);
	sweeper = sweeper_new(file, 0, UINT64_MAX);
	read_all();
	sweeper_touch(sweeper, SWEEP_PAGES);
	scratch_await_no_cache(file);
}
END_TEST

START_TEST(dirty_pages_are_written_and_dropped)
{
	char byte;

	sweeper = sweeper_new(file, 0, SIZE);
	ck_assert_int_gt(scratch_cached_pages(file), 0);
	sweeper_touch(sweeper, SWEEP_PAGES);
	scratch_await_no_cache(file);
	ck_assert_int_eq(pread(file, &byte, 1, 31), 1);
	ck_assert_int_eq(byte, (char)(31 * 31 + 1));
}
END_TEST

START_TEST(pages_that_come_later_are_dropped_too)
{
	sweeper = sweeper_new(file, 0, UINT64_MAX);
	for (int i = 0; i < 3; i++) {
		read_all();
		sweeper_touch(sweeper, SWEEP_PAGES);
		scratch_await_no_cache(file);
	}
}
END_TEST

START_TEST(pages_outside_of_the_window_stay)
{
	int page = (int)sysconf(_SC_PAGESIZE), outside = (int)(SIZE - SIZE / 4) / page - 1;

	scratch_drop_cache(file);
	/* Of the pages at the edges, some bytes belong to the window. */
	sweeper = sweeper_new(file, SIZE / 4 + 100, SIZE / 2 + 100);
	read_all();
	sweeper_touch(sweeper, SWEEP_PAGES);
	usleep(10 * SWEEP_MS * 1000);
	ck_assert_int_le(scratch_cached_pages(file), outside);
	/* The kernel itself may drop some of them meanwhile. */
	ck_assert_int_ge(scratch_cached_pages(file), outside / 2);
}
END_TEST

/* Whoever reads one part after the other needs them soon. */
START_TEST(pages_that_were_read_ahead_stay_for_a_moment)
{
	scratch_drop_cache(file);
	sweeper = sweeper_new(file, 0, UINT64_MAX);
	read_all();
	sweeper_touch(sweeper, SWEEP_READ_AHEAD);
	usleep(SWEEP_AHEAD_MS / 2 * 1000);
	ck_assert_int_gt(scratch_cached_pages(file), 0);
	scratch_await_no_cache(file);
	read_all();
	sweeper_touch(sweeper, SWEEP_READ_AHEAD);
	sweeper_touch(sweeper, SWEEP_PAGES);
	usleep(SWEEP_AHEAD_MS / 2 * 1000);
	ck_assert_int_eq(scratch_cached_pages(file), 0);
}
END_TEST

START_TEST(nothing_is_swept_unless_told)
{
	scratch_drop_cache(file);
	sweeper = sweeper_new(file, 0, UINT64_MAX);
	sweeper_reserve(sweeper);
	read_all();
	usleep(3 * SWEEP_MS * 1000);
	ck_assert_int_gt(scratch_cached_pages(file), 0);
}
END_TEST

START_TEST(last_pages_are_dropped_when_it_ends)
{
	scratch_drop_cache(file);
	sweeper = sweeper_new(file, 0, UINT64_MAX);
	read_all();
	sweeper_touch(sweeper, SWEEP_PAGES);
	sweeper_free(sweeper);
	sweeper = NULL;
	ck_assert_int_eq(scratch_cached_pages(file), 0);
}
END_TEST

int
main(void)
{
	const char *reason = scratch_no_view_of_cache();
	const struct suite_row cases[] = {
		{.name = "sweeper", .begin = begin, .end = end},
		{.test = clean_pages_are_dropped, .reason = reason},
		{.test = dirty_pages_are_written_and_dropped, .reason = reason},
		{.test = pages_that_come_later_are_dropped_too, .reason = reason},
		{.test = pages_outside_of_the_window_stay, .reason = reason},
		{.test = pages_that_were_read_ahead_stay_for_a_moment, .reason = reason},
		{.test = nothing_is_swept_unless_told, .reason = reason},
		{.test = last_pages_are_dropped_when_it_ends, .reason = reason},
		{0},
	};

	return suite_run("sweeper", cases);
}
