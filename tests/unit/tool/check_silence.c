/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a device's server counts as silent, in a recorded tree.
 */
#include "tool/guard/silence.h"

#include "tests/lib/suite.h"
#include "tests/unit/tool/system_tree.h"

#include <check.h>

#define FIGURES(READS, IN_FLIGHT, FLUSHES)                                                         \
	READS " 0 4160 33 16 0 128 12 " IN_FLIGHT " 40 45 2 0 65536 1 " FLUSHES " 8\n"

static struct silence silence;

static void
assert_silent(bool wanted, const char *figures, unsigned int seconds)
{
	tree_write("sys/block/nbd0/stat", figures);
	ck_assert_int_eq(silence_lasts(&silence, "nbd0", 30, (1 + seconds) * G_USEC_PER_SEC),
			 wanted);
}

static void
begin(void)
{
	tree_begin();
	silence = (struct silence){.since = 0};
}

START_TEST(unanswered_requests_are_silence_after_30_seconds)
{
	assert_silent(false, FIGURES("52", "3", "3"), 0);
	assert_silent(false, FIGURES("52", "4", "3"), 29);
	assert_silent(true, FIGURES("52", "4", "3"), 30);
}
END_TEST

START_TEST(each_answer_begins_the_time_anew)
{
	assert_silent(false, FIGURES("52", "3", "3"), 0);
	assert_silent(false, FIGURES("53", "3", "3"), 20);
	assert_silent(false, FIGURES("53", "3", "4"), 40);
	assert_silent(false, FIGURES("53", "3", "4"), 69);
	assert_silent(true, FIGURES("53", "3", "4"), 70);
}
END_TEST

START_TEST(idle_device_has_no_silent_server)
{
	assert_silent(false, FIGURES("52", "0", "3"), 0);
	assert_silent(false, FIGURES("52", "0", "3"), 100);
	/* The request may have come a moment ago. */
	assert_silent(false, FIGURES("52", "1", "3"), 105);
	assert_silent(true, FIGURES("52", "1", "3"), 130);
}
END_TEST

START_TEST(nothing_is_known_of_a_device_without_figures)
{
	assert_silent(false, FIGURES("52", "3", "3"), 0);
	assert_silent(false, "", 100);
	ck_assert(!silence_lasts(&silence, "nbd77", 30, 200 * G_USEC_PER_SEC));
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "recorded", .begin_once = tree_new, .end_once = tree_free, .begin = begin},
		{.test = unanswered_requests_are_silence_after_30_seconds},
		{.test = each_answer_begins_the_time_anew},
		{.test = idle_device_has_no_silent_server},
		{.test = nothing_is_known_of_a_device_without_figures},
		{0},
	};

	return suite_run("silence", cases);
}
