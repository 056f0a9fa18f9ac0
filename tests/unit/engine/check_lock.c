/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks of a whole image, between nbdloopd's processes and QEMU.
 */
#include "engine/backing/file/lock.h"

#include "tests/lib/suite.h"
#include "tests/unit/engine/lock_fixture.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int
take(int fd, enum lock_choice choice, bool writable, char **error)
{
	*error = NULL;
	return lock_take(fd, "disk.img", choice, &whole, writable, false, error);
}

static void
assert_taken(int fd, enum lock_choice choice, bool writable)
{
	char *error;

	ck_assert_msg(take(fd, choice, writable, &error) == 0, "%s", error);
	ck_assert_ptr_null(error);
}

static void
assert_upgraded(int fd, enum lock_choice choice)
{
	char *error = NULL;

	ck_assert_msg(lock_take(fd, "disk.img", choice, &whole, true, true, &error) == 0, "%s",
		      error);
	ck_assert_ptr_null(error);
}

/* ---- Alone */

START_TEST(each_choice_locks_the_bytes_that_qemu_would)
{
	static const struct {
		enum lock_choice choice;
		bool writable;
		unsigned int held, unshared;
	} rows[] = {
		{LOCK_EXCLUSIVE, true, READ | WRITE, WRITE | RESIZE},
		{LOCK_AUTO, true, READ | WRITE, WRITE | RESIZE},
		{LOCK_EXCLUSIVE, false, READ, WRITE | RESIZE},
		{LOCK_SHARED, true, READ | WRITE, 0},
		{LOCK_SHARED, false, READ, WRITE | RESIZE},
		{LOCK_AUTO, false, READ, WRITE | RESIZE},
		{LOCK_OFF, true, 0, 0},
		{LOCK_OFF, false, 0, 0},
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int fd = reopen(rows[i].writable ? O_RDWR : O_RDONLY);

		assert_taken(fd, rows[i].choice, rows[i].writable);
		assert_locked(rows[i].held, rows[i].unshared);
		close(fd); /* releases the lock */
		assert_locked(0, 0);
	}
}
END_TEST

START_TEST(names_are_those_of_the_option)
{
	ck_assert_str_eq(lock_resolved_name(LOCK_OFF, true), "off");
	ck_assert_str_eq(lock_resolved_name(LOCK_SHARED, true), "shared");
	ck_assert_str_eq(lock_resolved_name(LOCK_SHARED, false), "shared");
	ck_assert_str_eq(lock_resolved_name(LOCK_EXCLUSIVE, true), "exclusive");
	ck_assert_str_eq(lock_resolved_name(LOCK_EXCLUSIVE, false), "exclusive");
	ck_assert_str_eq(lock_resolved_name(LOCK_AUTO, true), "exclusive");
	ck_assert_str_eq(lock_resolved_name(LOCK_AUTO, false), "shared");
}
END_TEST

START_TEST(lock_may_be_taken_again_and_made_stronger)
{
	int fd = reopen(O_RDWR);

	assert_taken(fd, LOCK_AUTO, false);
	assert_taken(fd, LOCK_AUTO, false);
	assert_upgraded(fd, LOCK_AUTO);
	assert_locked(READ | WRITE, WRITE | RESIZE);
	close(fd);
}
END_TEST

/* A reader excludes writers; that ends when it becomes one of several writers. */
START_TEST(shared_reader_that_becomes_a_shared_writer_admits_other_writers)
{
	int fd = reopen(O_RDWR);

	assert_taken(fd, LOCK_SHARED, false);
	assert_upgraded(fd, LOCK_SHARED);
	assert_locked(READ | WRITE, 0);
	close(fd);
}
END_TEST

START_TEST(dropped_lock_is_gone)
{
	int fd = reopen(O_RDWR);

	assert_taken(fd, LOCK_EXCLUSIVE, true);
	lock_drop(fd);
	assert_locked(0, 0);
	close(fd);
}
END_TEST

/* Returns whether the file has a lock that begins at a byte beyond those that QEMU knows. */
static bool
has_lock_along(int fd)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = UNSHARED + 4, .l_len = 1000};

	ck_assert_int_eq(fcntl(fd, F_OFD_GETLK, &lock), 0);
	return lock.l_type != F_UNLCK;
}

/* The second descriptor of a server is no second server, to itself and to others. */
START_TEST(lock_of_another_descriptor_keeps_nobody_away)
{
	const enum lock_choice choices[] = {LOCK_AUTO, LOCK_SHARED, LOCK_EXCLUSIVE, LOCK_OFF};
	int fd = reopen(O_RDWR), other = reopen(O_RDWR), third = reopen(O_RDWR);
	char *error = NULL;

	for (unsigned int i = 0; i < 8; i++) {
		const enum lock_choice choice = choices[i / 2];
		const bool writable = i % 2;

		ck_assert_int_eq(lock_take_along(other, "disk.img", choice, writable, &error), 0);
		ck_assert(has_lock_along(third) == (choice != LOCK_OFF));
		assert_locked(0, 0);
		ck_assert_int_eq(lock_check(fd, "disk.img", LOCK_EXCLUSIVE, &whole, true, &error),
				 0);
		assert_taken(fd, choice, writable);
		assert_taken(fd, LOCK_EXCLUSIVE, true);
		ck_assert_int_eq(lock_take_along(other, "disk.img", choice, writable, &error), 0);
		lock_drop(fd);
		lock_drop(other);
		ck_assert(!has_lock_along(third));
	}
	ck_assert_int_eq(lock_take_along(-1, "disk.img", LOCK_AUTO, true, &error), -EBADF);
	ck_assert_ptr_nonnull(strstr(error, "disk.img: no exclusive lock: Bad file descriptor"));
	free(error);
	close(fd);
	close(other);
	close(third);
}
END_TEST

START_TEST(check_takes_nothing)
{
	char *error = NULL;
	int fd = reopen(O_RDWR);

	ck_assert_int_eq(lock_check(fd, "disk.img", LOCK_EXCLUSIVE, &whole, true, &error), 0);
	assert_locked(0, 0);
	close(fd);
}
END_TEST

START_TEST(file_without_locks_is_refused_with_the_way_out)
{
	char *error;

	ck_assert_int_eq(take(-1, LOCK_EXCLUSIVE, true, &error), -EBADF);
	ck_assert_str_eq(
		error,
		"disk.img: no exclusive lock: Bad file descriptor; lock=off serves it without one");
	free(error);
	ck_assert_int_eq(take(-1, LOCK_OFF, true, &error), 0);
}
END_TEST

/* ---- With others */

static void
assert_pair(const struct pair_row *row, enum lock_choice choice, bool writable, bool possible)
{
	char *error = NULL, *checked = NULL;
	int fd = reopen(writable ? O_RDWR : O_RDONLY);
	int r = possible ? 0 : -EAGAIN;

	ck_assert_msg(lock_check(fd, "disk.img", choice, &whole, writable, &checked) == r, "%s: %s",
		      row->other, checked);
	ck_assert_msg(take(fd, choice, writable, &error) == r, "%s: %s", row->other, error);
	ck_assert_pstr_eq(error, checked);
	ck_assert_int_eq(error != NULL, !possible);
	close(fd);
	free(error);
	free(checked);
}

START_TEST(who_may_use_an_image_together)
{
	const struct pair_row *row = &pair_rows[_i];
	pid_t pid = holder_start(row->may, row->lets);

	assert_pair(row, LOCK_EXCLUSIVE, true, row->exclusive_writer);
	assert_pair(row, LOCK_AUTO, true, row->exclusive_writer);
	assert_pair(row, LOCK_SHARED, true, row->shared_writer);
	assert_pair(row, LOCK_SHARED, false, row->reader);
	assert_pair(row, LOCK_AUTO, false, row->reader);
	assert_pair(row, LOCK_OFF, true, true);
	holder_end(pid);
}
END_TEST

START_TEST(refusal_names_the_process_and_leaves_no_lock)
{
	pid_t pid = holder_start(READ | WRITE, READ);
	char *error, expected[128];
	int fd = reopen(O_RDWR);

	ck_assert_int_eq(take(fd, LOCK_EXCLUSIVE, true, &error), -EAGAIN);
	snprintf(expected, sizeof(expected), "disk.img: no exclusive lock, because process %ld (",
		 (long)pid);
	ck_assert_msg(strncmp(error, expected, strlen(expected)) == 0, "%s", error);
	ck_assert_ptr_nonnull(strstr(error, "lock=shared"));
	free(error);
	holder_end(pid);
	assert_locked(0, 0);
	close(fd);
}
END_TEST

/* The other process is about to write: a reader that released its lock could not get it back. */
START_TEST(reader_that_can_not_write_keeps_its_lock_throughout)
{
	const enum lock_choice choices[] = {LOCK_AUTO, LOCK_SHARED, LOCK_EXCLUSIVE};

	for (unsigned int i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
		int fd = reopen(O_RDWR);
		char *error = NULL;
		pid_t pid;

		assert_taken(fd, choices[i], false);
		pid = holder_start(READ | WRITE, READ | UNCHANGED);
		ck_assert_int_eq(lock_take(fd, "disk.img", choices[i], &whole, true, true, &error),
				 -EAGAIN);
		ck_assert_ptr_nonnull(strstr(error, "because process"));
		free(error);
		holder_end(pid);
		assert_locked(READ, WRITE | RESIZE);
		close(fd);
	}
}
END_TEST

static void *
close_soon(void *fd)
{
	nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
	close(*(int *)fd);
	return NULL;
}

/* No process holds the lock: it belongs to requests of a process that has ended, and ends with
 * them. */
START_TEST(lock_that_no_process_holds_is_waited_for)
{
	int fd = reopen(O_RDWR), other = reopen(O_RDWR);
	pthread_t thread;

	assert_taken(other, LOCK_EXCLUSIVE, true);
	ck_assert_int_eq(pthread_create(&thread, NULL, close_soon, &other), 0);
	assert_taken(fd, LOCK_EXCLUSIVE, true);
	pthread_join(thread, NULL);
	close(fd);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "alone", .begin = lock_begin, .end = lock_end},
		{.test = each_choice_locks_the_bytes_that_qemu_would},
		{.test = names_are_those_of_the_option},
		{.test = lock_may_be_taken_again_and_made_stronger},
		{.test = shared_reader_that_becomes_a_shared_writer_admits_other_writers},
		{.test = dropped_lock_is_gone},
		{.test = lock_of_another_descriptor_keeps_nobody_away},
		{.test = check_takes_nothing},
		{.test = file_without_locks_is_refused_with_the_way_out},
		{.name = "others", .begin = lock_begin, .end = lock_end},
		{.test = who_may_use_an_image_together, .last = PAIR_ROWS},
		{.test = refusal_names_the_process_and_leaves_no_lock},
		{.test = reader_that_can_not_write_keeps_its_lock_throughout},
		{.test = lock_that_no_process_holds_is_waited_for},
		{0},
	};

	return suite_run("lock", cases);
}
