/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record of checkpoints and its image: what must be durable, and what happens to the image
 * while a checkpoint begins or the set ends.
 */
#include "tests/unit/engine/record_fixture.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether a server that starts now would find a checkpoint of that name. */
static bool
is_recorded(const char *name)
{
	struct record_header header;
	bool found = false;

	for (unsigned int i = 0; i < 2; i++) {
		for (uint32_t n = 0; read_header(i, &header) && n < header.count; n++)
			found |= strcmp(header.entries[n].name, name) == 0;
	}
	return found;
}

/* At a sync of the image, after the moment of checkpoint "b". */
static bool synced;

static void
expect_no_record(void)
{
	struct checkpoint *begun = hold("b");

	if (!begun)
		return;
	checkpoint_release(begun);
	synced = true;
	recorder_tick(set);
	change(IO_WRITE, 9, 1);
	ck_assert(is_recorded("a"));
	ck_assert(!is_recorded("b"));
}

/* Else an acknowledged write before it, which a power cut takes back, is no change since it. */
START_TEST(checkpoint_is_recorded_when_the_image_is_durable)
{
	begin_test();
	unlink(path);
	open_set();
	ck_assert_int_eq(begin(0), 0);
	at_sync = expect_no_record;
	ck_assert_int_eq(begin(1), 0);
	at_sync = NULL;
	ck_assert(synced);
	ck_assert(is_recorded("b"));
	checkpoints_free(set);
	end_test();
}
END_TEST

/* Changes come between the moment and the sync, which fails; or it fails before. */
static void
fail_after_moment(void)
{
	struct checkpoint *begun = hold("b");

	sync_error = begun ? EIO : 0;
	if (begun)
		checkpoint_release(begun);
}

START_TEST(checkpoint_of_an_image_that_is_not_durable_fails)
{
	char *error;

	begin_test();
	unlink(path);
	open_set();
	ck_assert_int_eq(begin(0), 0);
	at_sync = fail_after_moment;
	ck_assert_int_eq(checkpoints_begin(&set, 1, "b", GRANULE, &error), -EIO);
	ck_assert_ptr_nonnull(strstr(error, "could not be flushed"));
	free(error);
	at_sync = NULL;
	sync_error = 0;
	ck_assert_ptr_null(hold("b"));
	ck_assert(!is_recorded("b"));
	ck_assert(is_recorded("a"));
	/* The kernel forgets a failure after it has told; the engine doesn't. */
	ck_assert_int_eq(begin(2), -EIO);
	ck_assert_ptr_null(hold("c"));
	checkpoints_free(set);
	end_test();
}
END_TEST

START_TEST(record_is_not_trusted_after_a_failed_sync_at_the_end)
{
	char reason[REASON_MAX];

	begin_test();
	unlink(path);
	open_set();
	ck_assert_int_eq(begin(0), 0);
	sync_error = EIO;
	checkpoints_free(set);
	forget_failure();
	open_set();
	ck_assert(checkpoints_problem(set, reason));
	ck_assert_ptr_nonnull(strstr(reason, "written back"));
	checkpoints_free(set);
	end_test();
}
END_TEST

/* Which the record must note, while it gets room for another checkpoint. */
static void
change_one(void)
{
	change(IO_WRITE, 11, 1);
}

START_TEST(changes_go_on_while_a_checkpoint_gets_room)
{
	begin_test();
	unlink(path);
	record_facts = (struct stat){.st_ino = 0};
	open_set();
	ck_assert_int_eq(begin(0), 0);
	at_block = change_one;
	ck_assert_int_eq(begin(1), 0);
	ck_assert_ptr_null(at_block);
	checkpoints_free(set);
	open_set();
	judge(false, 0);
	checkpoints_free(set);
	end_test();
}
END_TEST

/* ---- another export of the file */

/* While the image is written back for the last time. */
static void
change_unobserved(void)
{
	if (disk.image->ranges->observers)
		return;
	change(IO_WRITE, 9, 1);
	set_times();
}

/* The set is of an export that is removed, and another one of the same file goes on. */
START_TEST(change_by_another_export_at_the_end_is_noticed)
{
	begin_test();
	unlink(path);
	record_facts = (struct stat){.st_ino = 0};
	open_set();
	ck_assert_int_eq(begin(0), 0);
	at_sync = change_unobserved;
	checkpoints_free(set);
	at_sync = NULL;
	open_set();
	expect_unknown("changed without this server");
	end_test();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "durable"},
		{.test = checkpoint_is_recorded_when_the_image_is_durable},
		{.test = checkpoint_of_an_image_that_is_not_durable_fails},
		{.test = record_is_not_trusted_after_a_failed_sync_at_the_end},
		{.name = "meanwhile"},
		{.test = changes_go_on_while_a_checkpoint_gets_room},
		{.test = change_by_another_export_at_the_end_is_noticed},
		{0},
	};

	return suite_run("record image", cases);
}
