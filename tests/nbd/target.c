/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/nbd/target.h"

#include "common/cleanup.h"
#include "tests/lib/suite.h"
#include "tests/nbd/facts.h"
#include "tests/nbd/loop_device.h"
#include "tests/nbd/scratch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKIPPED 77
#define LIMIT   180 /* seconds for one test, on a busy machine or a slow disk */

static const char *const server_names[] = {
	[TARGET_PLUGIN] = "plugin",
	[TARGET_NBDLOOPD] = "nbdloopd",
};

#define ROW(name_, server_, engine_, direct_io_, poll_)                                            \
	{                                                                                          \
		.name = (name_), .server = (server_), .engine = (engine_),                         \
		.direct_io = (direct_io_), .poll = (poll_)                                         \
	}
#define ROWS_OF(name_, server_)                                                                    \
	ROW(name_ ", io_uring, direct I/O", server_, "io_uring", true, false),                     \
		ROW(name_ ", io_uring, buffered", server_, "io_uring", false, false),              \
		ROW(name_ ", aio, direct I/O", server_, "aio", true, false),                       \
		ROW(name_ ", aio, buffered", server_, "aio", false, false),                        \
		ROW(name_ ", threads, direct I/O", server_, "threads", true, false),               \
		ROW(name_ ", threads, buffered", server_, "threads", false, false),                \
		ROW(name_ ", io_uring, direct I/O, polled", server_, "io_uring", true, true)

#define TLS_ROW(name_, engine_, direct_io_, ...)                                                   \
	{                                                                                          \
		.name = (name_), .server = TARGET_NBDLOOPD, .engine = (engine_),                   \
		.direct_io = (direct_io_), .tls = true, __VA_ARGS__                                \
	}

static const struct target rows[] = {
	ROWS_OF("plugin", TARGET_PLUGIN),
	ROWS_OF("nbdloopd", TARGET_NBDLOOPD),
	{
		.name = "nbdloopd, io_uring, page-cache=drop",
		.server = TARGET_NBDLOOPD,
		.engine = "io_uring",
		.drop = true,
	},
	TLS_ROW("nbdloopd, io_uring, direct I/O, TLS", "io_uring", true),
	TLS_ROW("nbdloopd, threads, buffered, TLS", "threads", false),
	/* These run only if they are asked for: between engine and TLS is the event loop, on
	 * io_uring or not, and the rows above have both. */
	TLS_ROW("nbdloopd, io_uring, buffered, TLS", "io_uring", false, .on_request = true),
	TLS_ROW("nbdloopd, aio, direct I/O, TLS", "aio", true, .on_request = true),
	TLS_ROW("nbdloopd, aio, buffered, TLS", "aio", false, .on_request = true),
	TLS_ROW("nbdloopd, threads, direct I/O, TLS", "threads", true, .on_request = true),
	TLS_ROW("nbdloopd, io_uring, direct I/O, polled, TLS", "io_uring", true, .poll = true,
		.on_request = true),
	TLS_ROW("nbdloopd, io_uring, page-cache=drop, TLS", "io_uring", false, .drop = true,
		.on_request = true),
	{
		.name = "plugin, Ceph",
		.server = TARGET_PLUGIN,
		.engine = "librbd",
		.ceph = true,
	},
	{
		.name = "nbdloopd, Ceph",
		.server = TARGET_NBDLOOPD,
		.engine = "librbd",
		.ceph = true,
	},
};

const struct target *
target_row(int row)
{
	return &rows[row];
}

/* Why a row doesn't exist on this machine, or NULL. */
static const char *
row_absent(const struct target *row, const char *facts, unsigned int needs)
{
	char line[64];

#ifndef HAVE_GNUTLS
	if (row->tls)
		return "nbdloopd was built without TLS";
#endif
	if (row->poll && (needs & TARGET_NEVER_POLLED || !scratch_has_poll_queues()))
		return "its disk has no poll queues";
	snprintf(line, sizeof(line), "loop_engine_%s=yes\n", row->engine);
	if (row->ceph)
		return NULL;
	if (!strstr(facts, line))
		return "this machine does not allow that engine";
	/* While a thread waits for its ring, valgrind (3.19) lets no other thread run. */
	if (row->server == TARGET_NBDLOOPD && strcmp(row->engine, "io_uring") == 0 &&
	    getenv("NBDLOOP_VALGRIND"))
		return "valgrind stops a server that waits in io_uring_enter()";
	if (row->direct_io && !scratch_has_direct_io())
		return "the scratch directory's file system has no direct I/O";
	return NULL;
}

/* Whether the environment variable, if set, names this value. */
static bool
is_wanted(const char *variable, const char *value)
{
	const char *only = getenv(variable);

	return !only || strcmp(only, value) == 0;
}

/* Whether the environment wants this row: LOOP_TLS, LOOP_CEPH, LOOP_SERVER and LOOP_ENGINE. */
static bool
row_wanted(const struct target *row)
{
	const char *tls = getenv("LOOP_TLS");

	if (row->ceph != (getenv("LOOP_CEPH") != NULL))
		return false;
	if (tls ? row->tls != (strcmp(tls, "on") == 0) : row->on_request)
		return false;
	return is_wanted("LOOP_ENGINE", row->engine) &&
	       is_wanted("LOOP_SERVER", server_names[row->server]);
}

/* Adds the rows that exist; returns their number, or -1. Prints the others and the reason. */
static int
add_rows(Suite *suite, target_tests add_tests, unsigned int needs)
{
	char *CLEANUP_FREE facts = facts_read();
	int added = 0;

	if (!facts)
		return -1;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *reason;
		TCase *tests;

		if (!row_wanted(&rows[i]))
			continue;
		reason = row_absent(&rows[i], facts, needs);
		if (reason) {
			if (!(rows[i].poll && needs & TARGET_NEVER_POLLED))
				fprintf(stderr, "SKIP: %s: %s\n", rows[i].name, reason);
			continue;
		}
		tests = tcase_create(rows[i].name);
		tcase_set_timeout(tests, LIMIT);
		tcase_add_checked_fixture(tests, scratch_setup, scratch_teardown);
		add_tests(tests, (int)i);
		suite_add_tcase(suite, tests);
		added++;
	}
	return added;
}

static int
run_rows(const char *name, target_tests add_tests, unsigned int needs)
{
	Suite *suite = suite_create(name);
	int added = add_rows(suite, add_tests, needs);

	if (added > 0)
		return suite_finish(suite);
	if (added < 0)
		return EXIT_FAILURE;
	fprintf(stderr, "%s: skipped: none of the wanted targets exists here\n", name);
	return SKIPPED;
}

static volatile sig_atomic_t runner_pid;

static void
end_runner(int number)
{
	kill((pid_t)runner_pid, number);
}

/*
 * The tests run in a child, so that this process can clean up when they are ended from outside,
 * such as by a time limit. Returns in the child only; the parent exits with the child's result.
 */
static void
clear_up_after_child(void)
{
	pid_t self = getpid(), child = fork();
	int status = 0;

	if (child == 0) {
		/* On a signal, Check kills its process group, which holds other processes, too. */
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != self)
			_exit(EXIT_FAILURE);
		return;
	}
	runner_pid = child;
	if (child > 0) {
		signal(SIGTERM, end_runner);
		signal(SIGINT, end_runner);
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
	}
	scratch_fini();
	exit(child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE);
}

int
target_main(const char *name, target_tests add_tests, unsigned int needs)
{
	const char *reason = needs & TARGET_NEEDS_ROOT ? loop_device_absent() : NULL;
	int result;

	if (reason) {
		fprintf(stderr, "%s: skipped: %s\n", name, reason);
		return SKIPPED;
	}
	result = scratch_init();
	if (result < 0) {
		fprintf(stderr, "%s: no scratch directory: %s\n", name, strerror(-result));
		return EXIT_FAILURE;
	}
	clear_up_after_child();
	return run_rows(name, add_tests, needs);
}
