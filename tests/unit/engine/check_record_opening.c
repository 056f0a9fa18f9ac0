/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record of checkpoints when its image is opened: which ones are trusted, and what the file
 * says until the image is observed.
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

START_TEST(record_is_not_trusted_where_other_servers_may_change_the_image)
{
	leave_closed_record();
	disk.image->config.lock = LOCK_SHARED;
	open_set();
	expect_unknown("another server may change the image unseen");
	disk.image->config.lock = LOCK_EXCLUSIVE;
	open_set();
	expect_unknown("another server may change the image unseen");
	end_test();
}
END_TEST

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
		{.name = "opening"},
		{.test = record_is_not_trusted_where_other_servers_may_change_the_image},
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

	return suite_run("record opening", cases);
}
