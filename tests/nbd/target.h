/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the protocol tests run on.  A target is a row of a table: a server, one of its engines,
 * direct I/O on or off.  Every test is written once and run on each row that exists on this
 * machine, but for those about what only one of the servers has.  LOOP_SERVER=plugin or nbdloopd
 * keeps only the rows of that server; LOOP_ENGINE=io_uring, aio or threads those of that engine.
 */
#ifndef TESTS_NBD_TARGET_H
#define TESTS_NBD_TARGET_H

#include <check.h>
#include <stdbool.h>

enum target_server {
	TARGET_PLUGIN, /* nbdkit with the plugin */
	TARGET_NBDLOOPD,
};

struct target {
	const char *name;
	enum target_server server;
	const char *engine;
	bool direct_io;
	bool poll;
};

const struct target *
target_row(int row);

enum target_needs {
	TARGET_NEEDS_ROOT = 1 << 0,   /* loop devices and mounts */
	TARGET_NEVER_POLLED = 1 << 1, /* images don't lie on the scratch directory's own disk */
};

/* Adds tests to the test case of one row, with target_add_test(). */
typedef void (*target_tests)(TCase *tests, int row);

#define target_add_test(tests, test, row) tcase_add_loop_test(tests, test, row, (row) + 1)
/* The same for a test about what only that server has. */
#define target_add_test_of(server_, tests, test, row_)                                             \
	do {                                                                                       \
		if (target_row(row_)->server == (server_))                                         \
			target_add_test(tests, test, row_);                                        \
	} while (0)
/* Inside a test. */
#define TARGET (target_row(_i))

/*
 * Runs a whole program: a test case per row, each test in a process and a scratch directory
 * of its own.  `seconds` limits one test.  Returns main()'s result: 77 when nothing of it can
 * run here, with the reason on standard error.
 */
int
target_main(const char *name, target_tests add_tests, unsigned int needs, unsigned int seconds);

#endif
