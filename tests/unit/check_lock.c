/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks between programs, ours and QEMU.  The other program is a child process: a lock of this one, under
 * another description, would be taken for that of a server that was killed.
 */
#include "engine/lock.h"

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
enum { READ = 1, WRITE = 2, UNCHANGED = 4, RESIZE = 8, ALL = 15 };
enum { HELD = 100, UNSHARED = 200 };

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
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = base + i, .l_len = 1};

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
	return lock_take(fd, "disk.img", choice, writable, error);
}

static void
assert_taken(int fd, enum lock_choice choice, bool writable)
{
	char *error;

	ck_assert_msg(take(fd, choice, writable, &error) == 0, "%s", error);
	ck_assert_ptr_null(error);
}

/* --- Another process ---------------------------------------------------------------------------------- */

static void
lock_as_qemu(int fd, off_t base, unsigned int bytes)
{
	for (unsigned int i = 0; i < 4; i++) {
		struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = base + i, .l_len = 1};

		if (bytes & (1u << i) && fcntl(fd, F_OFD_SETLK, &lock) < 0)
			_exit(1);
	}
}

/* A process with QEMU's locks for what it may do and what it lets others do. */
static pid_t
holder_start(unsigned int may, unsigned int lets)
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
		lock_as_qemu(fd, HELD, may);
		lock_as_qemu(fd, UNSHARED, ALL & ~lets);
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

static void
holder_end(pid_t pid)
{
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* --- Alone -------------------------------------------------------------------------------------------- */

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
	assert_taken(fd, LOCK_AUTO, true);
	assert_locked(READ | WRITE, WRITE | RESIZE);
	close(fd);
}
END_TEST

/* The reader's wish that nobody writes ends when it becomes one of several writers. */
START_TEST(shared_reader_that_becomes_a_shared_writer_admits_other_writers)
{
	int fd = reopen(O_RDWR);

	assert_taken(fd, LOCK_SHARED, false);
	assert_taken(fd, LOCK_SHARED, true);
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

	ck_assert_int_eq(lock_check(fd, "disk.img", LOCK_EXCLUSIVE, true, &error), 0);
	assert_locked(0, 0);
	close(fd);
}
END_TEST

START_TEST(file_without_locks_is_refused_with_the_way_out)
{
	char *error;

	ck_assert_int_eq(take(-1, LOCK_EXCLUSIVE, true, &error), -EBADF);
	ck_assert_str_eq(error, "disk.img: no exclusive lock: Bad file descriptor; lock=off serves it without one");
	free(error);
	ck_assert_int_eq(take(-1, LOCK_OFF, true, &error), 0);
}
END_TEST

/* --- With others -------------------------------------------------------------------------------------- */

struct pair_row {
	const char *other;
	unsigned int may, lets;
	/* Whether we can have the image meanwhile. */
	bool exclusive_writer, shared_writer, reader;
};

static const struct pair_row pair_rows[] = {
	{"a guest's drive", READ | WRITE | RESIZE, READ | UNCHANGED, false, false, false},
	{"a guest's drive with share-rw", READ | WRITE, READ | WRITE | UNCHANGED | RESIZE, false, true, false},
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

	ck_assert_msg(lock_check(fd, "disk.img", choice, writable, &checked) == r, "%s: %s", row->other, checked);
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
	snprintf(expected, sizeof(expected), "disk.img: no exclusive lock, because process %ld (", (long)pid);
	ck_assert_msg(strncmp(error, expected, strlen(expected)) == 0, "%s", error);
	ck_assert_ptr_nonnull(strstr(error, "lock=shared"));
	free(error);
	holder_end(pid);
	assert_locked(0, 0);
	close(fd);
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

int
main(void)
{
	Suite *suite = suite_create("lock");
	TCase *alone = tcase_create("alone"), *others = tcase_create("others");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_checked_fixture(alone, begin, end);
	tcase_add_test(alone, each_choice_locks_the_bytes_that_qemu_would);
	tcase_add_test(alone, names_are_those_of_the_option);
	tcase_add_test(alone, lock_may_be_taken_again_and_made_stronger);
	tcase_add_test(alone, shared_reader_that_becomes_a_shared_writer_admits_other_writers);
	tcase_add_test(alone, dropped_lock_is_gone);
	tcase_add_test(alone, check_takes_nothing);
	tcase_add_test(alone, file_without_locks_is_refused_with_the_way_out);
	suite_add_tcase(suite, alone);

	tcase_add_checked_fixture(others, begin, end);
	tcase_add_loop_test(others, who_may_use_an_image_together, 0, sizeof(pair_rows) / sizeof(pair_rows[0]));
	tcase_add_test(others, refusal_names_the_process_and_leaves_no_lock);
	tcase_add_test(others, lock_that_no_process_holds_is_waited_for);
	suite_add_tcase(suite, others);

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
