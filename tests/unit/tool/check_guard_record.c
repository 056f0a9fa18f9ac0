/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A guard's record for its successor, and how its life and death are noticed.
 */
#include "tool/guard/guard_record.h"

#include "tests/lib/suite.h"
#include "tests/unit/control_fixture.h"

#include "tool/failure.h"
#include "tool/link/server_link.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLACE "/srv/\xff odd\n\"name\""

static struct device device = {.name = (char *)"nbd0", .pid = 4711};
static struct guard_plan plan;
static GError *error;

static void
begin(void)
{
	fixture_begin();
	device.backend = server_link_backend(fixture.path);
	plan = (struct guard_plan){
		.source = {.place = (char *)PLACE,
			   .connections = 3,
			   .silence = 31,
			   .server = SERVER_NBDKIT,
			   .direct_io = "auto",
			   .force = true,
			   .tls = {.wanted = true,
				   .proxy = true,
				   .psk = (char *)"/\xff keys",
				   .user = (char *)"alice"}},
		.attachment = {.read_only = true, .timeout = 30, .dead_timeout = 77, .swap = true},
	};
	plan.source.server_options = g_ptr_array_new();
	g_ptr_array_add(plan.source.server_options, (gpointer) "--offset=512");
	g_ptr_array_add(plan.source.server_options, (gpointer) "--read-only");
}

static void
end(void)
{
	g_ptr_array_unref(plan.source.server_options);
	guard_record_forget(&device);
	g_free(device.backend);
	g_clear_error(&error);
	fixture_end();
}

/* A guard, in a process of its own, that has written its record. */
static pid_t
guard_new(void)
{
	struct guard_progress progress = {.place = (char *)PLACE PLACE PLACE,
					  .image = {2049, 1234567890123},
					  .server = (char *)"nbd://b/x",
					  .misfits = (char *)"a can't",
					  .flags = 0x6d,
					  .ceph_fence = (char *)"192.0.2.7:0/1+free",
					  .direct_io = "off"};
	struct guard_record record;
	int told[2];
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(told), 0);
	pid = fork();
	if (pid == 0) {
		if (!guard_record_make(&record, fixture.path, NULL) ||
		    !guard_record_write(&record, &plan, &progress, NULL))
			_exit(1);
		/* Shorter than the record before. */
		progress.place = (char *)PLACE;
		if (!guard_record_write(&record, &plan, &progress, NULL) ||
		    write(told[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(told[1]);
	ck_assert_int_eq(read(told[0], &byte, 1), 1);
	close(told[0]);
	return pid;
}

static void
guard_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

START_TEST(guard_is_seen_as_long_as_it_lives)
{
	pid_t guard = guard_new();

	ck_assert_int_eq(guard_record_keeper(&device), guard);
	ck_assert_int_eq(guard_record_keeper(&device), guard);
	guard_kill(guard);
	ck_assert_int_eq(guard_record_keeper(&device), 0);
}
END_TEST

START_TEST(device_of_somebody_else_has_no_guard)
{
	const struct device other = {.name = (char *)"nbd1", .pid = getpid()},
			    none = {.name = (char *)"nbd2"};

	ck_assert_int_eq(guard_record_keeper(&other), -1);
	ck_assert_int_eq(guard_record_keeper(&none), -1);
}
END_TEST

START_TEST(living_guard_keeps_its_place)
{
	struct guard_progress progress = {.place = NULL};
	struct guard_plan taken = {.source.place = NULL};
	struct guard_record record;
	pid_t guard = guard_new();

	ck_assert(!guard_record_take(&record, &device, &taken, &progress, &error));
	ck_assert_msg(failure_is(error, EBUSY), "%s", error->message);
	ck_assert_int_eq(guard_record_keeper(&device), guard);
	guard_kill(guard);
}
END_TEST

START_TEST(next_guard_knows_all)
{
	struct guard_progress progress = {.place = NULL};
	struct guard_plan taken = {.source.place = NULL};
	struct guard_record record;

	guard_kill(guard_new());
	ck_assert_msg(guard_record_take(&record, &device, &taken, &progress, &error), "%s",
		      error ? error->message : "");
	ck_assert_str_eq(progress.place, PLACE);
	ck_assert(progress.image.device == 2049 && progress.image.inode == 1234567890123 &&
		  !progress.read_only);
	ck_assert_str_eq(progress.direct_io, "off");
	ck_assert_str_eq(progress.server, "nbd://b/x");
	ck_assert_str_eq(progress.misfits, "a can't");
	ck_assert_str_eq(progress.ceph_fence, "192.0.2.7:0/1+free");
	ck_assert_uint_eq(progress.flags, 0x6d);
	ck_assert_uint_eq(taken.source.silence, 31);
	ck_assert(taken.source.connections == 3 && taken.source.server == SERVER_NBDKIT &&
		  taken.source.force && !taken.source.remote);
	ck_assert_uint_eq(taken.source.server_options->len, 2);
	ck_assert_str_eq(taken.source.server_options->pdata[0], "--offset=512");
	ck_assert_str_eq(taken.source.direct_io, "auto");
	ck_assert(taken.source.tls.wanted && taken.source.tls.proxy && !taken.source.tls.verify &&
		  !taken.source.tls.certificates && !taken.source.tls.hostname);
	ck_assert_str_eq(taken.source.tls.psk, "/\xff keys");
	ck_assert_str_eq(taken.source.tls.user, "alice");
	ck_assert(taken.attachment.read_only && taken.attachment.swap);
	ck_assert(taken.attachment.timeout == 30 && taken.attachment.dead_timeout == 77);
	guard_plan_fini(&taken);
	guard_progress_fini(&progress);
	guard_record_close(&record);
	ck_assert(!guard_record_take(&record, &device, &taken, &progress, &error));
	ck_assert_msg(failure_is(error, ENOENT), "%s", error->message);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "record", .begin = begin, .end = end},
		{.test = guard_is_seen_as_long_as_it_lives},
		{.test = device_of_somebody_else_has_no_guard},
		{.test = living_guard_keeps_its_place},
		{.test = next_guard_knows_all},
		{0},
	};

	return suite_run("guard_record", cases);
}
