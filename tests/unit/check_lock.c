/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks between programs, ours and QEMU.  The other program is a child process: a lock of this one,
 * under another description, would be taken for that of a server that was killed.
 */
#include "engine/image/lock.h"

#include "tests/lib/suite.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* QEMU's permissions (include/block/block-common.h) as bits, and where raw files have their bytes
 * (block/file-posix.c). */
enum {
	READ = 1,
	WRITE = 2,
	UNCHANGED = 4,
	RESIZE = 8,
	ALL = 15
};
enum {
	HELD = 100,
	UNSHARED = 200
};

static const struct lock_part whole = {0, UINT64_MAX};
static int file;

static void
begin(void)
{
	file = scratch_memory_file(4096);
}

static void
end(void)
{
	close(file);
}

static int
reopen(int flags)
{
	char path[SCRATCH_PATH];
	int fd = open(scratch_path(file, path), flags | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

/* The bytes from `base` on that somebody else than this description has locked. */
static unsigned int
locked_bytes(int fd, off_t base)
{
	unsigned int found = 0;

	for (unsigned int i = 0; i < 8; i++) {
		struct flock lock = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = base + i, .l_len = 1};

		ck_assert_int_eq(fcntl(fd, F_OFD_GETLK, &lock), 0);
		found |= lock.l_type != F_UNLCK ? 1u << i : 0;
	}
	return found;
}

static void
assert_locked(unsigned int held, unsigned int unshared)
{
	int fd = reopen(O_RDWR);

	ck_assert_uint_eq(locked_bytes(fd, HELD), held);
	ck_assert_uint_eq(locked_bytes(fd, UNSHARED), unshared);
	close(fd);
}

static int
take(int fd, enum lock_choice choice, bool writable, char **error)
{
	*error = NULL;
	return lock_take(fd, "disk.img", choice, &whole, writable, error);
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

	ck_assert_msg(lock_upgrade(fd, "disk.img", choice, &whole, &error) == 0, "%s", error);
	ck_assert_ptr_null(error);
}

/* ---- Another process */

static void
lock_as_qemu(int fd, off_t base, unsigned int bytes)
{
	for (unsigned int i = 0; i < 4; i++) {
		struct flock lock = {
			.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = base + i, .l_len = 1};

		if (bytes & (1u << i) && fcntl(fd, F_OFD_SETLK, &lock) < 0)
			_exit(1);
	}
}

static void
lock_as_server(int fd, enum lock_choice choice, const struct lock_part *part, bool writable)
{
	char *error = NULL;

	if (lock_take(fd, "disk.img", choice, part, writable, &error) < 0)
		_exit(1);
}

/* A process with locks: with `part` those of a server of ours, else QEMU's for what it may do and
 * what it lets others do. */
static pid_t
process_start(const struct lock_part *part, enum lock_choice choice, bool writable,
	      unsigned int may, unsigned int lets)
{
	int ready[2];
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		char path[SCRATCH_PATH];
		int fd = open(scratch_path(file, path), O_RDWR);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (part) {
			lock_as_server(fd, choice, part, writable);
		} else {
			lock_as_qemu(fd, HELD, may);
			lock_as_qemu(fd, UNSHARED, ALL & ~lets);
		}
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static pid_t
holder_start(unsigned int may, unsigned int lets)
{
	return process_start(NULL, LOCK_OFF, false, may, lets);
}

static pid_t
server_start(const struct lock_part *part, enum lock_choice choice, bool writable)
{
	return process_start(part, choice, writable, 0, 0);
}

static void
holder_end(pid_t pid)
{
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
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
		close(fd); /* which gives it back */
		assert_locked(0, 0);
	}
}
END_TEST

START_TEST(names_are_those_of_the_option)
{
	ck_assert_str_eq(lock_name(LOCK_OFF, true), "off");
	ck_assert_str_eq(lock_name(LOCK_SHARED, true), "shared");
	ck_assert_str_eq(lock_name(LOCK_SHARED, false), "shared");
	ck_assert_str_eq(lock_name(LOCK_EXCLUSIVE, true), "exclusive");
	ck_assert_str_eq(lock_name(LOCK_EXCLUSIVE, false), "exclusive");
	ck_assert_str_eq(lock_name(LOCK_AUTO, true), "exclusive");
	ck_assert_str_eq(lock_name(LOCK_AUTO, false), "shared");
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

/* The reader's wish that nobody writes ends when it becomes one of several writers. */
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

struct pair_row {
	const char *other;
	unsigned int may, lets;
	/* Whether we can have the image meanwhile. */
	bool exclusive_writer, shared_writer, reader;
};

static const struct pair_row pair_rows[] = {
	{"a guest's drive", READ | WRITE | RESIZE, READ | UNCHANGED, false, false, false},
	{"a guest's drive with share-rw", READ | WRITE, READ | WRITE | UNCHANGED | RESIZE, false,
	 true, false},
	{"a guest's read-only drive", READ, READ | UNCHANGED, false, false, true},
	{"qemu-img info", READ, READ | UNCHANGED, false, false, true},
	{"qemu-img info -U", READ, ALL, true, true, true},
	{"one who wants no reader", READ, 0, false, false, false},
	{"an exclusive writer of ours", READ | WRITE, READ | UNCHANGED, false, false, false},
	{"a shared writer of ours", READ | WRITE, ALL, false, true, false},
	{"a reader of ours", READ, READ | UNCHANGED, false, false, true},
	{"a process without a lock", 0, ALL, true, true, true},
};

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

/* The other one is about to write: nobody could get a reader's lock now who had let his go. */
START_TEST(reader_that_can_not_write_keeps_its_lock_throughout)
{
	const enum lock_choice choices[] = {LOCK_AUTO, LOCK_SHARED, LOCK_EXCLUSIVE};

	for (unsigned int i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
		int fd = reopen(O_RDWR);
		char *error = NULL;
		pid_t pid;

		assert_taken(fd, choices[i], false);
		pid = holder_start(READ | WRITE, READ | UNCHANGED);
		ck_assert_int_eq(lock_upgrade(fd, "disk.img", choices[i], &whole, &error), -EAGAIN);
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

/* No process has it: it belongs to requests of one that is gone, and will go with them. */
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

/* ---- Parts */

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

	ck_assert_int_eq(lock_take(fd, "disk.img", row->choice, row->wanted, row->writable, &error),
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

/* To QEMU, who has a part has the whole; and the other way round. */
START_TEST(part_excludes_whom_the_whole_excludes)
{
	const struct pair_row *row = &pair_rows[_i];
	pid_t pid = holder_start(row->may, row->lets);

	for (unsigned int i = 0; i < 3; i++) {
		const bool possible[] = {row->exclusive_writer, row->shared_writer, row->reader};
		const enum lock_choice choices[] = {LOCK_EXCLUSIVE, LOCK_SHARED, LOCK_SHARED};
		char *error = NULL;
		int fd = reopen(O_RDWR);

		ck_assert_int_eq(lock_take(fd, "disk.img", choices[i], &second, i < 2, &error),
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

	ck_assert_int_eq(lock_take(fd, "disk.img", LOCK_AUTO, &second, false, &error), 0);
	ck_assert_uint_eq(locked_bytes(qemu, HELD), READ);
	ck_assert_uint_eq(locked_bytes(qemu, UNSHARED) & (READ | WRITE | RESIZE), WRITE | RESIZE);
	ck_assert_int_eq(lock_upgrade(fd, "disk.img", LOCK_AUTO, &second, &error), 0);
	ck_assert_uint_eq(locked_bytes(qemu, HELD), READ | WRITE);
	ck_assert_uint_eq(locked_bytes(qemu, UNSHARED) & (READ | WRITE | RESIZE), WRITE | RESIZE);
	lock_drop(fd);
	assert_locked(0, 0);
	close(fd);
	close(qemu);
}
END_TEST

/* Of two locks on a byte, the kernel tells the first: here that of a server of another part, which
 * is in nobody's way. */
START_TEST(reader_of_qemus_is_seen_behind_a_part)
{
	pid_t server = server_start(&first, LOCK_AUTO, false);
	pid_t qemu = holder_start(READ, READ | UNCHANGED);
	char *error = NULL;
	int fd = reopen(O_RDWR);

	ck_assert_int_eq(lock_take(fd, "disk.img", LOCK_AUTO, &second, true, &error), -EAGAIN);
	free(error);
	ck_assert_int_eq(lock_take(fd, "disk.img", LOCK_AUTO, &second, false, &error), 0);
	ck_assert_int_eq(lock_upgrade(fd, "disk.img", LOCK_AUTO, &second, &error), -EAGAIN);
	free(error);
	holder_end(qemu);
	ck_assert_int_eq(lock_upgrade(fd, "disk.img", LOCK_AUTO, &second, &error), 0);
	holder_end(server);
	close(fd);
}
END_TEST

START_TEST(reader_of_a_part_that_can_not_write_stays_one)
{
	pid_t server = server_start(&first, LOCK_AUTO, false), other;
	char *error = NULL;
	int fd = reopen(O_RDWR);

	ck_assert_int_eq(lock_take(fd, "disk.img", LOCK_AUTO, &both, false, &error), 0);
	ck_assert_int_eq(lock_upgrade(fd, "disk.img", LOCK_AUTO, &both, &error), -EAGAIN);
	free(error);
	/* Others can read it still, and nobody can write to it. */
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
	ck_assert(!lock_parts_meet(&first, &second));
	ck_assert(!lock_parts_meet(&rest, &first));
	ck_assert(lock_parts_meet(&rest, &second));
	ck_assert(lock_parts_meet(&page, &first) && lock_parts_meet(&page, &second));
	ck_assert(lock_parts_meet(&whole, &first) && lock_parts_meet(&far, &whole));
	ck_assert(lock_parts_meet(&far, &far));
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "alone", .begin = begin, .end = end},
		{.test = each_choice_locks_the_bytes_that_qemu_would},
		{.test = names_are_those_of_the_option},
		{.test = lock_may_be_taken_again_and_made_stronger},
		{.test = shared_reader_that_becomes_a_shared_writer_admits_other_writers},
		{.test = dropped_lock_is_gone},
		{.test = check_takes_nothing},
		{.test = file_without_locks_is_refused_with_the_way_out},
		{.name = "others", .begin = begin, .end = end},
		{.test = who_may_use_an_image_together,
		 .last = sizeof(pair_rows) / sizeof(pair_rows[0])},
		{.test = refusal_names_the_process_and_leaves_no_lock},
		{.test = reader_that_can_not_write_keeps_its_lock_throughout},
		{.test = lock_that_no_process_holds_is_waited_for},
		{.name = "parts", .begin = begin, .end = end},
		{.test = parts_that_share_nothing_can_be_had_at_once,
		 .last = sizeof(part_rows) / sizeof(part_rows[0])},
		{.test = part_excludes_whom_the_whole_excludes,
		 .last = sizeof(pair_rows) / sizeof(pair_rows[0])},
		{.test = part_has_the_bytes_that_qemu_looks_at},
		{.test = reader_of_qemus_is_seen_behind_a_part},
		{.test = reader_of_a_part_that_can_not_write_stays_one},
		{.test = parts_meet_if_they_share_a_page},
		{0},
	};

	return suite_run("lock", cases);
}
