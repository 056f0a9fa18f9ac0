/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns of processes that attach the same image, and the files that they leave.
 */
#include "tool/verb/attach_turn.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	PROCESSES = 5,
	ROUNDS = 200
};

static char directory[] = "/tmp/nbdloop-turn.XXXXXX";
static struct stat image;

static void
begin(void)
{
	strcpy(directory + strlen(directory) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	ck_assert_int_eq(stat("/", &image), 0);
}

/* rmdir() fails if a file is left. */
static void
end(void)
{
	ck_assert_int_eq(rmdir(directory), 0);
}

/* Exits with 1 if another process has the turn at the same time. */
static void
take_turns(void)
{
	char path[sizeof(directory) + 8];

	snprintf(path, sizeof(path), "%s/mine", directory);
	for (int i = 0; i < ROUNDS; i++) {
		struct attach_turn turn;
		int fd;

		attach_turn_take(&turn, directory, &image, true);
		fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
		if (fd < 0 || unlink(path) < 0)
			_exit(1);
		close(fd);
		attach_turn_end(&turn);
	}
	_exit(0);
}

START_TEST(one_at_a_time_is_alone)
{
	for (int i = 0; i < PROCESSES; i++) {
		pid_t pid = fork();

		ck_assert_int_ge(pid, 0);
		if (pid == 0)
			take_turns();
	}
	for (int i = 0; i < PROCESSES; i++) {
		int status;

		ck_assert_int_gt(wait(&status), 0);
		ck_assert_int_eq(status, 0);
	}
}
END_TEST

START_TEST(those_who_need_not_be_alone_do_not_wait_for_each_other)
{
	struct attach_turn one, other;

	attach_turn_take(&one, directory, &image, false);
	attach_turn_take(&other, directory, &image, false);
	attach_turn_end(&one);
	attach_turn_end(&other);
}
END_TEST

START_TEST(killed_process_has_no_turn)
{
	struct attach_turn turn;
	int ready[2], status;
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		attach_turn_take(&turn, directory, &image, true);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	attach_turn_take(&turn, directory, &image, true);
	attach_turn_end(&turn);
	close(ready[0]);
	close(ready[1]);
}
END_TEST

START_TEST(where_no_file_can_be_nobody_waits)
{
	struct attach_turn turn;

	attach_turn_take(&turn, "/proc/nowhere", &image, true);
	ck_assert_int_eq(turn.fd, -1);
	attach_turn_end(&turn);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "attach_turn", .begin = begin, .end = end},
		{.test = one_at_a_time_is_alone},
		{.test = those_who_need_not_be_alone_do_not_wait_for_each_other},
		{.test = killed_process_has_no_turn},
		{.test = where_no_file_can_be_nobody_waits},
		{0},
	};

	return suite_run("attach_turn", cases);
}
