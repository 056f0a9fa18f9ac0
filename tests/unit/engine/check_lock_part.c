/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks of parts of an image, between nbdloopd's processes, and between them and QEMU, which locks
 * only whole images.
 */
#include "engine/backing/file/lock.h"

#include "tests/lib/suite.h"
#include "tests/unit/engine/lock_fixture.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	MIB = 1 << 20
};

static const struct lock_part first = {0, MIB}, second = {MIB, 2 * MIB}, rest = {MIB, UINT64_MAX},
			      both = {4096, 2 * MIB}, page = {MIB - 4096, MIB + 512},
			      far = {UINT64_MAX - 4096, UINT64_MAX - 512};

static const struct part_row {
	const struct lock_part *there;
	enum lock_choice there_choice;
	bool there_writable;
	const struct lock_part *wanted;
	enum lock_choice choice;
	bool writable, possible;
} part_rows[] = {
	{&first, LOCK_AUTO, true, &second, LOCK_AUTO, true, true},
	{&second, LOCK_AUTO, true, &first, LOCK_AUTO, true, true},
	{&first, LOCK_AUTO, true, &rest, LOCK_EXCLUSIVE, true, true},
	{&first, LOCK_AUTO, true, &second, LOCK_AUTO, false, true},
	{&first, LOCK_AUTO, false, &second, LOCK_AUTO, true, true},
	{&first, LOCK_AUTO, false, &first, LOCK_AUTO, false, true},
	{&first, LOCK_AUTO, false, &whole, LOCK_AUTO, false, true},
	{&whole, LOCK_AUTO, false, &first, LOCK_AUTO, false, true},
	{&first, LOCK_SHARED, true, &both, LOCK_SHARED, true, true},
	{&first, LOCK_SHARED, true, &second, LOCK_AUTO, true, true},
	{&first, LOCK_AUTO, true, &far, LOCK_AUTO, true, true},
	{&first, LOCK_AUTO, true, &first, LOCK_AUTO, true, false},
	{&first, LOCK_AUTO, true, &first, LOCK_AUTO, false, false},
	{&first, LOCK_AUTO, false, &first, LOCK_AUTO, true, false},
	{&first, LOCK_AUTO, true, &both, LOCK_AUTO, true, false},
	{&first, LOCK_AUTO, true, &page, LOCK_AUTO, true, false},
	{&second, LOCK_AUTO, true, &page, LOCK_AUTO, true, false},
	{&first, LOCK_SHARED, true, &both, LOCK_AUTO, true, false},
	{&far, LOCK_AUTO, true, &far, LOCK_AUTO, true, false},
	{&first, LOCK_AUTO, true, &whole, LOCK_AUTO, true, false},
	{&first, LOCK_AUTO, true, &whole, LOCK_AUTO, false, false},
	{&whole, LOCK_AUTO, true, &second, LOCK_AUTO, true, false},
	{&whole, LOCK_AUTO, false, &second, LOCK_AUTO, true, false},
};

START_TEST(parts_that_share_nothing_can_be_had_at_once)
{
	const struct part_row *row = &part_rows[_i];
	pid_t pid = server_start(row->there, row->there_choice, row->there_writable);
	char *error = NULL;
	int fd = reopen(O_RDWR);

	ck_assert_int_eq(
		lock_take(fd, "disk.img", row->choice, row->wanted, row->writable, false, &error),
		row->possible ? 0 : -EAGAIN);
	ck_assert_int_eq(error != NULL, !row->possible);
	if (error) {
		char holder[32];

		snprintf(holder, sizeof(holder), "process %ld (", (long)pid);
		ck_assert_msg(strstr(error, holder) != NULL, "%s", error);
	}
	free(error);
	close(fd);
	holder_end(pid);
	assert_locked(0, 0);
}
END_TEST

/* QEMU knows only whole images, so a part excludes the same programs as the whole. */
START_TEST(part_excludes_whom_the_whole_excludes)
{
	const struct pair_row *row = &pair_rows[_i];
	pid_t pid = holder_start(row->may, row->lets);

	for (unsigned int i = 0; i < 3; i++) {
		const bool possible[] = {row->exclusive_writer, row->shared_writer, row->reader};
		const enum lock_choice choices[] = {LOCK_EXCLUSIVE, LOCK_SHARED, LOCK_SHARED};
		char *error = NULL;
		int fd = reopen(O_RDWR);

		ck_assert_int_eq(
			lock_take(fd, "disk.img", choices[i], &second, i < 2, false, &error),
			possible[i] ? 0 : -EAGAIN);
		free(error);
		close(fd);
	}
	holder_end(pid);
}
END_TEST

START_TEST(part_has_the_bytes_that_qemu_looks_at)
{
	int fd = reopen(O_RDWR), qemu = reopen(O_RDWR);
	char *error = NULL;

	ck_assert_int_eq(lock_take(fd, "disk.img", LOCK_AUTO, &second, false, false, &error), 0);
	ck_assert_uint_eq(locked_bytes(qemu, HELD), READ);
	ck_assert_uint_eq(locked_bytes(qemu, UNSHARED) & (READ | WRITE | RESIZE), WRITE | RESIZE);
	ck_assert_int_eq(lock_take(fd, "disk.img", LOCK_AUTO, &second, true, true, &error), 0);
	ck_assert_uint_eq(locked_bytes(qemu, HELD), READ | WRITE);
	ck_assert_uint_eq(locked_bytes(qemu, UNSHARED) & (READ | WRITE | RESIZE), WRITE | RESIZE);
	lock_drop(fd);
	assert_locked(0, 0);
	close(fd);
	close(qemu);
}
END_TEST

/* Of two locks on a byte, the kernel reports the first: here the lock of a server of another part,
 * which does not conflict. */
START_TEST(reader_of_qemus_is_seen_behind_a_part)
{
	pid_t server = server_start(&first, LOCK_AUTO, false);
	pid_t qemu = holder_start(READ, READ | UNCHANGED);
	char *error = NULL;
	int fd = reopen(O_RDWR);

	ck_assert_int_eq(lock_take(fd, "disk.img", LOCK_AUTO, &second, true, false, &error),
			 -EAGAIN);
	free(error);
	ck_assert_int_eq(lock_take(fd, "disk.img", LOCK_AUTO, &second, false, false, &error), 0);
	ck_assert_int_eq(lock_take(fd, "disk.img", LOCK_AUTO, &second, true, true, &error),
			 -EAGAIN);
	free(error);
	holder_end(qemu);
	ck_assert_int_eq(lock_take(fd, "disk.img", LOCK_AUTO, &second, true, true, &error), 0);
	holder_end(server);
	close(fd);
}
END_TEST

START_TEST(reader_of_a_part_that_can_not_write_stays_one)
{
	pid_t server = server_start(&first, LOCK_AUTO, false), other;
	char *error = NULL;
	int fd = reopen(O_RDWR);

	ck_assert_int_eq(lock_take(fd, "disk.img", LOCK_AUTO, &both, false, false, &error), 0);
	ck_assert_int_eq(lock_take(fd, "disk.img", LOCK_AUTO, &both, true, true, &error), -EAGAIN);
	free(error);
	/* Other programs can still read the part, and none can write to it. */
	other = server_start(&second, LOCK_AUTO, false);
	holder_end(other);
	holder_end(server);
	server = server_start(&first, LOCK_AUTO, false);
	holder_end(server);
	close(fd);
}
END_TEST

START_TEST(parts_meet_if_they_share_a_page)
{
	ck_assert(!backing_parts_meet(&first, &second));
	ck_assert(!backing_parts_meet(&rest, &first));
	ck_assert(backing_parts_meet(&rest, &second));
	ck_assert(backing_parts_meet(&page, &first) && backing_parts_meet(&page, &second));
	ck_assert(backing_parts_meet(&whole, &first) && backing_parts_meet(&far, &whole));
	ck_assert(backing_parts_meet(&far, &far));
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "parts", .begin = lock_begin, .end = lock_end},
		{.test = parts_that_share_nothing_can_be_had_at_once,
		 .last = sizeof(part_rows) / sizeof(part_rows[0])},
		{.test = part_excludes_whom_the_whole_excludes, .last = PAIR_ROWS},
		{.test = part_has_the_bytes_that_qemu_looks_at},
		{.test = reader_of_qemus_is_seen_behind_a_part},
		{.test = reader_of_a_part_that_can_not_write_stays_one},
		{.test = parts_meet_if_they_share_a_page},
		{0},
	};

	return suite_run("lock_part", cases);
}
