/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What has changed since a checkpoint that a backing keeps by itself: whole granules, and never too
 * little.
 */
#include "tests/unit/engine/native_fixture.h"

#include "tests/lib/suite.h"
#include "tests/unit/engine/changed_run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int
note(void *data, uint64_t offset, uint64_t length, bool changed)
{
	char *seen = data;

	sprintf(seen + strlen(seen), " %s%u-%u", changed ? "" : "=", (unsigned int)(offset / 512),
		(unsigned int)((offset + length) / 512));
	return 0;
}

/* In sectors of 512 bytes; what has not changed is with a "=". */
static void
assert_told(uint64_t offset, uint64_t length, const char *wanted)
{
	struct checkpoint *checkpoint = hold(0);
	char seen[256] = "";

	ck_assert_int_eq(checkpoint_visit(checkpoint, offset, length, note, seen), 0);
	checkpoint_release(checkpoint);
	ck_assert_str_eq(seen, wanted);
}

static void
run(size_t n, uint64_t start, uint64_t end)
{
	fake.runs[n][0] = START + start;
	fake.runs[n][1] = START + end;
	fake.run_count = n + 1;
}

START_TEST(changes_are_told_in_whole_granules)
{
	begin_test();
	add_to(&fake.first, "one", UINT64_MAX);
	assert_told(0, 64 * KIB, " =0-128");
	run(0, 5000, 5001);
	assert_told(0, 64 * KIB, " =0-8 8-16 =16-128");
	/* Two in one granule, and one in the next. */
	run(0, 4096, 4097);
	run(1, 8000, 8001);
	run(2, 8192, 8193);
	assert_told(0, 64 * KIB, " =0-8 8-24 =24-128");
	/* At the ends of what was asked for, and nothing beyond. */
	run(0, 0, 1);
	run(1, 63 * KIB, 80 * KIB);
	run(2, 90 * KIB, 91 * KIB);
	assert_told(512, 64 * KIB - 1024, " =1-120 120-127");
	ck_assert_uint_eq(fake.asked, START + 512);
	ck_assert_uint_eq(fake.asked_length, 64 * KIB - 1024);
	end_test();
}
END_TEST

START_TEST(what_the_image_did_not_have_has_changed)
{
	begin_test();
	add_to(&fake.first, "one", START + 20 * KIB);
	assert_told(0, 64 * KIB, " =0-40 40-128");
	ck_assert_uint_eq(fake.asked_length, 20 * KIB);
	run(0, 19 * KIB, 20 * KIB);
	assert_told(0, 64 * KIB, " =0-32 32-128");
	fake.asked = 0;
	assert_told(32 * KIB, 4 * KIB, " 64-72");
	ck_assert_uint_eq(fake.asked, 0);
	/* It began after all of the backing then. */
	fake.first.list[0].size = START / 2;
	fake.first.list[0].id = ++fake.first.last_id;
	fake.first.edition++;
	assert_told(0, 4 * KIB, " 0-8");
	end_test();
}
END_TEST

START_TEST(failure_is_told)
{
	struct checkpoint *checkpoint;

	begin_test();
	add_to(&fake.first, "one", UINT64_MAX);
	checkpoint = hold(0);
	fake.result = -ETIMEDOUT;
	ck_assert_int_eq(changed_run_error(checkpoint), -ETIMEDOUT);
	checkpoint_release(checkpoint);
	end_test();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "native_changes"},
		{.test = changes_are_told_in_whole_granules},
		{.test = what_the_image_did_not_have_has_changed},
		{.test = failure_is_told},
		{0},
	};

	return suite_run("native_changes", cases);
}
