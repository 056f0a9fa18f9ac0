/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record of checkpoints and its image: what must be durable, and what happens to the image
 * while it is opened or a checkpoint begins.
 */
#include "tests/unit/engine/record_fixture.h"

#include "common/cleanup.h"
#include "engine/image/freeze.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- the image's disk */

/* As the end of the process does. */
static void
forget_failure(void)
{
	sync_error = 0;
	atomic_store(&disk.image->shared->sync_failure, 0);
}

/* Reads one of the record's two headers. Returns whether it is whole. */
static bool
read_header(unsigned int which, struct record_header *header)
{
	uint8_t bytes[RECORD_HEADER_SIZE];
	char *CLEANUP_FREE error = NULL;
	int CLEANUP_CLOSE fd = open(path, O_RDONLY);

	return fd >= 0 &&
	       pread(fd, bytes, sizeof(bytes), (off_t)(which * sizeof(bytes))) == sizeof(bytes) &&
	       record_header_decode(header, bytes, &error) == 0;
}

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

/* Whether some header says that a server keeps the record. */
static bool
says_in_use(void)
{
	struct record_header header;
	bool in_use = false;

	for (unsigned int i = 0; i < 2; i++)
		in_use |= read_header(i, &header) && header.state == RECORD_IN_USE;
	return in_use;
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
	ck_assert_ptr_nonnull(strstr(error, "may be lost"));
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

static void
expect_unknown(const char *part)
{
	char reason[REASON_MAX];

	ck_assert(checkpoints_problem(set, reason));
	ck_assert_msg(strstr(reason, part) != NULL, "%s", reason);
	checkpoints_free(set);
}

/* As a write of another program does; which time it sets doesn't matter. */
static void
set_times(void)
{
	static time_t time = 1;
	const struct timespec times[2] = {{.tv_sec = time}, {.tv_sec = time}};

	time++;
	ck_assert_int_eq(futimens(disk.image->backing.fd, times), 0);
}

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

/* ---- opening */

static void
leave_closed_record(void)
{
	begin_test();
	unlink(path);
	record_facts = (struct stat){.st_ino = 0};
	open_set();
	ck_assert_int_eq(begin(0), 0);
	change(IO_WRITE, 1, 1);
	checkpoints_free(set);
}

static void
set_times_later(void)
{
	if (set->has_record)
		set_times();
}

/* Between the judgement of the record and the first change that it notes. */
START_TEST(change_during_opening_is_noticed)
{
	leave_closed_record();
	at_record_sync = set_times_later;
	open_set();
	at_record_sync = NULL;
	expect_unknown("while it was opened");
	open_set();
	expect_unknown("while it was opened");
	end_test();
}
END_TEST

static unsigned int syncs_unobserved;

static void
expect_closed_until_observed(void)
{
	if (disk.image->ranges->observers)
		return;
	syncs_unobserved++;
	ck_assert(!says_in_use());
}

/* Else a change by another export before that, and a kill, would be trusted to be noted. */
START_TEST(record_is_in_use_only_when_the_image_is_observed)
{
	leave_closed_record();
	at_record_sync = expect_closed_until_observed;
	open_set();
	at_record_sync = NULL;
	ck_assert_uint_gt(syncs_unobserved, 0);
	ck_assert(says_in_use());
	judge(false, 0);
	checkpoints_free(set);
	end_test();
}
END_TEST

/* Else what others wrote into the page cache would change the image after the judgement. */
START_TEST(image_is_written_back_before_it_is_judged)
{
	leave_closed_record();
	at_sync = set_times;
	open_set();
	at_sync = NULL;
	expect_unknown("changed without this server");
	end_test();
}
END_TEST

/* The checkpoints are known by their names only, without room for marks. */
START_TEST(copy_of_checkpoints_that_are_unknown_is_unknown)
{
	struct checkpoint_facts facts;
	struct checkpoints *copy;
	struct freeze freeze;

	leave_closed_record();
	set_times();
	open_set();
	copy = checkpoints_prepare_copy(set, NULL);
	ck_assert_ptr_nonnull(copy);
	freeze_begin(&freeze, &disk.image, 1);
	checkpoints_copy(copy);
	freeze_end(&freeze);
	expect_unknown("changed without this server");
	set = copy;
	ck_assert(checkpoints_at(set, 0, &facts));
	ck_assert_str_eq(facts.name, "a");
	ck_assert(facts.unknown);
	expect_unknown("changed without this server");
	end_test();
}
END_TEST

/* The one that it belongs to may come back, or the disk. */
START_TEST(record_that_is_not_for_now_is_left_alone)
{
	struct image *image;

	leave_closed_record();
	image = disk.image;
	read_error = EIO;
	open_set();
	read_error = 0;
	ck_assert_ptr_null(set->first);
	expect_unknown("can't be read");
	sync_error = EIO;
	open_set();
	forget_failure();
	expect_unknown("can't tell whether");
	image->config.offset = MIB;
	open_set();
	image->config.offset = 0;
	ck_assert_ptr_null(set->first);
	expect_unknown("another offset");
	end_test();
}
END_TEST

/* Leaves the record as a server does that is killed. */
static void
leave_record_in_use(void)
{
	static uint8_t bytes[MIB];
	ssize_t size;
	int fd;

	begin_test();
	unlink(path);
	record_facts = (struct stat){.st_ino = 0};
	open_set();
	ck_assert_int_eq(begin(0), 0);
	change(IO_WRITE, 1, 1);
	fd = open(path, O_RDWR);
	ck_assert_int_ge(fd, 0);
	size = read(fd, bytes, sizeof(bytes));
	ck_assert_int_gt(size, (int)RECORD_BLOCKS_AT);
	checkpoints_free(set);
	ck_assert_int_eq(pwrite(fd, bytes, (size_t)size, 0), size);
	close(fd);
}

/* Nobody notes what changes while a server has no record, and the next one sees no difference to
 * what the killed server has changed. _i: what fails. */
START_TEST(record_of_a_killed_server_is_not_trusted_by_the_one_after_the_next)
{
	struct {
		int *error;
		const char *why, *later;
	} const cases[] = {
		{&read_error, "can't be read", "can't be read"},
		{&sync_error, "can't tell whether", "can't tell whether"},
		{&record_error, "could not be written back", "could not be written back"},
		{&header_error, "unreadable", NULL},
	};
	char aside[sizeof(path) + sizeof(".unreadable")];

	leave_record_in_use();
	open_set();
	judge(false, 0);
	checkpoints_free(set);
	end_test();

	leave_record_in_use();
	*cases[_i].error = EIO;
	open_set();
	*cases[_i].error = 0;
	forget_failure();
	expect_unknown(cases[_i].why);
	open_set();
	if (cases[_i].later) {
		expect_unknown(cases[_i].later);
	} else {
		ck_assert_ptr_null(set->first);
		checkpoints_free(set);
		snprintf(aside, sizeof(aside), "%s.unreadable", path);
		ck_assert_int_eq(unlink(aside), 0);
	}
	end_test();
}
END_TEST

/* The other one may be older. _i: whether the server was killed. */
START_TEST(record_with_one_header_that_can_be_read_is_good_if_it_was_closed)
{
	if (_i)
		leave_record_in_use();
	else
		leave_closed_record();
	header_error = EIO;
	first_header_only = true;
	open_set();
	header_error = 0;
	first_header_only = false;
	if (_i) {
		expect_unknown("can't be read");
		open_set();
		expect_unknown("can't be read");
	} else {
		judge(false, 0);
		checkpoints_free(set);
	}
	end_test();
}
END_TEST

/* The record as it was at its last sync while the image was not observed. */
static uint8_t kept[MIB];
static ssize_t kept_size;

static void
keep_unobserved(void)
{
	int CLEANUP_CLOSE fd = open(path, O_RDONLY);

	if (disk.image->ranges->observers)
		return;
	kept_size = pread(fd, kept, sizeof(kept), 0);
	ck_assert_int_gt(kept_size, (int)RECORD_BLOCKS_AT);
}

/* Two servers are killed, the second one while it opens the image, and in between another export of
 * that changes the file. */
START_TEST(change_during_opening_is_not_taken_for_one_of_a_killed_server)
{
	int fd;

	leave_record_in_use();
	at_record_sync = keep_unobserved;
	open_set();
	at_record_sync = NULL;
	checkpoints_free(set);
	ck_assert_int_gt(kept_size, 0);
	fd = open(path, O_RDWR);
	ck_assert_int_eq(pwrite(fd, kept, (size_t)kept_size, 0), kept_size);
	close(fd);
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	ck_assert_int_eq(pwrite(disk.image->backing.fd, "x", 1, 0), 1);
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
		{.test = change_during_opening_is_noticed},
		{.test = record_is_in_use_only_when_the_image_is_observed},
		{.test = image_is_written_back_before_it_is_judged},
		{.test = copy_of_checkpoints_that_are_unknown_is_unknown},
		{.test = record_that_is_not_for_now_is_left_alone},
		{.test = record_of_a_killed_server_is_not_trusted_by_the_one_after_the_next,
		 .last = 4},
		{.test = record_with_one_header_that_can_be_read_is_good_if_it_was_closed,
		 .last = 2},
		{.test = change_during_opening_is_not_taken_for_one_of_a_killed_server},
		{0},
	};

	return suite_run("record image", cases);
}
