/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints that a backing keeps by itself: the set follows the backing's list, and begins and
 * ends them there.
 */
#include "tests/unit/engine/native_fixture.h"

#include "tests/lib/suite.h"
#include "tests/unit/engine/changed_run.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void
add(const char *name, uint64_t size)
{
	add_to(&fake.first, name, size);
}

static void
assert_names(const char *wanted)
{
	struct checkpoint_facts facts;
	char seen[256] = "";

	for (size_t n = 0; checkpoints_at(set, n, &facts); n++) {
		ck_assert_int_eq(facts.unknown, false);
		ck_assert_uint_eq(facts.granule, 4096);
		strcat(strcat(seen, " "), facts.name);
	}
	ck_assert_str_eq(seen, wanted);
}

START_TEST(set_follows_the_backing)
{
	struct checkpoint *held;

	begin_test();
	assert_names("");
	add("one", UINT64_MAX);
	add("two", UINT64_MAX);
	add("no name", UINT64_MAX);
	assert_names(" one two");
	held = hold(0);
	ck_assert_int_eq(changed_run_error(held), 0);
	take_out(&fake.first, 1);
	add("three", UINT64_MAX);
	assert_names(" two three");
	fake.result = -ENOENT;
	ck_assert_int_eq(changed_run_error(held), -EIDRM);
	checkpoint_release(held);
	end_test();
}
END_TEST

/* Two servers can begin one of the same name. The older one has all changes of the other. */
START_TEST(oldest_of_a_name_is_told)
{
	begin_test();
	add("one", UINT64_MAX);
	add("one", UINT64_MAX);
	assert_names(" one");
	ck_assert_uint_eq(hold(0)->native.id, 1);
	checkpoint_release(set->first);
	take_out(&fake.first, 1);
	assert_names(" one");
	ck_assert_uint_eq(set->first->native.id, 2);
	end_test();
}
END_TEST

START_TEST(begins_and_ends_in_the_backing)
{
	char *CLEANUP_FREE error = NULL, *CLEANUP_FREE taken = NULL;

	begin_test();
	ck_assert_int_eq(checkpoints_begin(&set, 1, "one", CHECKPOINT_GRANULE, &error), 0);
	assert_names(" one");
	ck_assert_int_eq(checkpoints_begin(&set, 1, "one", CHECKPOINT_GRANULE, &taken), -EEXIST);
	ck_assert_int_eq(checkpoints_end(&set, 1, "one", &error), 0);
	assert_names("");
	end_test();
	ck_assert_uint_eq(fake.thrown, 0);
}
END_TEST

START_TEST(failure_begins_and_ends_none)
{
	char *CLEANUP_FREE error = NULL;

	begin_test();
	fake.result = -ETIMEDOUT;
	ck_assert_int_eq(checkpoints_begin(&set, 1, "one", CHECKPOINT_GRANULE, &error), -ETIMEDOUT);
	ck_assert_uint_eq(fake.thrown, 1);
	assert_names("");
	add("two", UINT64_MAX);
	ck_assert_int_eq(checkpoints_end(&set, 1, "two", &error), -ETIMEDOUT);
	assert_names(" two");
	end_test();
}
END_TEST

/* The backing has one for both. */
START_TEST(two_exports_of_an_image_begin_one)
{
	struct checkpoints *both[2];
	char *CLEANUP_FREE error = NULL;

	begin_test();
	both[0] = set;
	both[1] = checkpoints_new(&native_image);
	ck_assert_int_eq(checkpoints_begin(both, 2, "one", CHECKPOINT_GRANULE, &error), 0);
	ck_assert_uint_eq(fake.first.count, 1);
	set = both[1];
	assert_names(" one");
	ck_assert_int_eq(checkpoints_end(both, 2, "one", &error), 0);
	ck_assert_uint_eq(fake.first.count, 0);
	checkpoints_free(both[0]);
	end_test();
}
END_TEST

/* They may be in two pools of a cluster, which count by themselves. */
START_TEST(two_backings_begin_and_end_one_each)
{
	struct image second;
	struct checkpoints *both[2];
	char *CLEANUP_FREE error = NULL;

	begin_test();
	second = native_image;
	second.backing.state = &fake.second;
	both[0] = set;
	both[1] = checkpoints_new(&second);
	ck_assert_int_eq(checkpoints_begin(both, 2, "one", CHECKPOINT_GRANULE, &error), 0);
	ck_assert_uint_eq(fake.first.list[0].id, fake.second.list[0].id);
	ck_assert_int_eq(checkpoints_end(both, 2, "one", &error), 0);
	ck_assert_uint_eq(fake.first.count + fake.second.count, 0);
	checkpoints_free(both[1]);
	end_test();
}
END_TEST

/* The reader comes first; a fake backing that is not writable refuses to end one. */
START_TEST(reader_leaves_it_to_the_writer)
{
	struct image reader;
	struct checkpoints *both[2];
	char *CLEANUP_FREE error = NULL;

	begin_test();
	reader = native_image;
	reader.backing.writable = false;
	both[0] = checkpoints_new(&reader);
	both[1] = set;
	ck_assert_int_eq(checkpoints_begin(both, 2, "one", CHECKPOINT_GRANULE, &error), 0);
	ck_assert_uint_eq(fake.first.count, 1);
	ck_assert_int_eq(checkpoints_end(both, 2, "one", &error), 0);
	ck_assert_uint_eq(fake.first.count, 0);
	checkpoints_free(both[0]);
	end_test();
}
END_TEST

/* A call that failed for one of them ended the other one. */
START_TEST(end_can_be_tried_again)
{
	struct image second;
	struct checkpoints *both[2];
	char *CLEANUP_FREE error = NULL, *CLEANUP_FREE none = NULL;

	begin_test();
	second = native_image;
	second.backing.state = &fake.second;
	both[0] = set;
	both[1] = checkpoints_new(&second);
	add_to(&fake.second, "one", UINT64_MAX);
	ck_assert_int_eq(checkpoints_end(both, 2, "one", &error), 0);
	ck_assert_uint_eq(fake.second.count, 0);
	ck_assert_int_eq(checkpoints_end(both, 2, "one", &none), -ENOENT);
	checkpoints_free(both[1]);
	end_test();
}
END_TEST

START_TEST(granularity_is_that_of_the_backing)
{
	char *CLEANUP_FREE error = NULL, *CLEANUP_FREE none = NULL;

	begin_test();
	ck_assert_int_eq(checkpoints_begin(&set, 1, "one", 1024 * KIB, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "4 KiB"));
	ck_assert_int_eq(checkpoints_begin(&set, 1, "one", 4 * KIB, &none), 0);
	end_test();
}
END_TEST

START_TEST(number_is_limited)
{
	char *CLEANUP_FREE error = NULL;

	begin_test();
	for (unsigned int i = 0; i < CHECKPOINTS_MAX + 2; i++) {
		char name[16];

		sprintf(name, "n%u", i);
		add(name, UINT64_MAX);
	}
	ck_assert_int_eq(checkpoints_begin(&set, 1, "one", CHECKPOINT_GRANULE, &error), -ENOSPC);
	ck_assert_uint_eq(set->count, CHECKPOINTS_MAX);
	end_test();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "native"},
		{.test = set_follows_the_backing},
		{.test = oldest_of_a_name_is_told},
		{.test = begins_and_ends_in_the_backing},
		{.test = failure_begins_and_ends_none},
		{.test = two_exports_of_an_image_begin_one},
		{.test = two_backings_begin_and_end_one_each},
		{.test = reader_leaves_it_to_the_writer},
		{.test = end_can_be_tried_again},
		{.test = granularity_is_that_of_the_backing},
		{.test = number_is_limited},
		{0},
	};

	return suite_run("native", cases);
}
