/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record of checkpoints when its server is killed, the power fails, or its disk fails, at each
 * of its calls in turn: no changed granule may be missing.
 */
#include "tests/unit/engine/record_fixture.h"

#include "tests/lib/suite.h"
#include "tests/unit/engine/changed_run.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void
run_scenario(void)
{
	change(IO_WRITE, 600, 1); /* the only one in its region */
	begin(0);
	change(IO_WRITE, 0, 1);
	change(IO_WRITE, 3, 2);
	recorder_tick(set);
	begin(1);
	change(IO_WRITE, 0, 1);
	change(IO_ZERO, 250, 10); /* two regions */
	recorder_tick(set);
	recorder_tick(set);
	change(IO_WRITE, 7, 1); /* a region that was in use before */
	change(IO_WRITE, 7, 1);
	end(0);
	change(IO_DISCARD, 20, 3);
	begin(2);
	change(IO_WRITE, 0, 1);
	change(IO_WRITE, 200, 1);
	recorder_tick(set);
	checkpoints_free(set);
}

/* Runs it in a process that may be killed, and returns whether it was not. */
static bool
run_with(enum fault what, unsigned int at)
{
	pid_t pid;
	int status;

	unlink(path);
	memset(told, 0, sizeof(*told));
	record_facts = (struct stat){.st_ino = 0};
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		fault = what;
		fault_at = at;
		open_set();
		run_scenario();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL);
	ck_assert(WIFEXITED(status) || told->calls == at);
	return WIFEXITED(status);
}

/* In slow runs, under valgrind, only some of the calls are met. */
static unsigned int
step(void)
{
	const char *factor = getenv("NBDLOOP_TIME_FACTOR");

	return factor && atof(factor) > 2 ? 13 : 1;
}

START_TEST(server_is_killed_at_each_call)
{
	bool whole = false;

	begin_test();
	for (unsigned int at = 1; !whole; at += step()) {
		whole = run_with(KILL, at);
		open_set();
		judge(false, at);
		checkpoints_free(set);
	}
	end_test();
}
END_TEST

/* _i: 0: all that was not synced is lost; 1: all but headers; else some sectors of it. */
START_TEST(power_fails_at_each_call)
{
	bool whole = false;

	begin_test();
	for (unsigned int at = 1; !whole; at += step()) {
		blocks_only = _i == 1;
		chance = (uint32_t)_i * 100 + (_i ? at : 0);
		kernel = "first";
		age = INT64_C(1) << 60;
		whole = run_with(CUT, at);
		kernel = "second";
		age = 0;
		open_set();
		judge(true, at);
		checkpoints_free(set);
	}
	end_test();
}
END_TEST

/* Clients get no error, and the checkpoints say that they are broken, now and later. */
START_TEST(disk_of_the_record_is_full_at_each_call)
{
	char reason[REASON_MAX];
	bool met = true;

	begin_test();
	for (unsigned int at = 1; met; at += step()) {
		ck_assert(run_with(NO_SPACE, at));
		met = told->calls >= at;
		open_set();
		for (unsigned int i = 0; i < 3; i++) {
			struct checkpoint *checkpoint = hold(names[i]);

			if (checkpoint && met)
				ck_assert_msg(changed_run_error(checkpoint) == -ENODATA ||
						      !checkpoints_problem(set, reason),
					      "call %u", at);
			if (checkpoint)
				checkpoint_release(checkpoint);
		}
		if (!checkpoints_problem(set, reason) && set->first)
			judge(false, at);
		checkpoints_free(set);
	}
	end_test();
}
END_TEST

static bool waited;

static void
look_at_changes(void)
{
	waited = atomic_load(&set->kept);
}

/* If the server is killed before that, the next one trusts the record. */
START_TEST(changes_wait_until_the_record_is_marked_as_untrusted)
{
	begin_test();
	open_set();
	begin(0);
	change(IO_WRITE, 0, 1);
	record_error = EIO;
	at_header = look_at_changes;
	recorder_tick(set);
	ck_assert(waited);
	ck_assert(!atomic_load(&set->kept));
	expect_unknown("could not be written");
	end_test();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "record faults"},
		{.test = server_is_killed_at_each_call},
		{.test = power_fails_at_each_call, .last = 5},
		{.test = disk_of_the_record_is_full_at_each_call},
		{.test = changes_wait_until_the_record_is_marked_as_untrusted},
		{0},
	};

	return suite_run("record faults", cases);
}
