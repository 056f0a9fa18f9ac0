/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The targets of the protocol tests. A target is a row of a table: a server, one of its engines,
 * direct I/O on or off. A test is written once, and runs on each row that exists on this machine; a
 * few tests are about only one of the servers. With LOOP_CEPH=SIZE, only the rows exist whose
 * images are in Ceph, in objects of that size. LOOP_SERVER=plugin or nbdloopd keeps only the rows
 * of that server, LOOP_ENGINE=io_uring, aio or threads only those of that engine. LOOP_TLS=on runs
 * the rows with TLS only, and all of them; LOOP_TLS=off the rows without it.
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
	bool drop;       /* page-cache=drop */
	bool tls;        /* with a key that both sides have */
	bool ceph;       /* the image is in the cluster of $CEPH_CONF */
	bool on_request; /* runs only with LOOP_TLS=on */
};

const struct target *
target_row(int row);

enum target_needs {
	TARGET_NEEDS_ROOT = 1 << 0,   /* loop devices and mounts */
	TARGET_NEVER_POLLED = 1 << 1, /* images are not on the scratch directory's disk */
};

/* Adds tests to the test case of one row, with target_add_test(). */
typedef void (*target_tests)(TCase *tests, int row);

#define target_add_test(tests, test, row) tcase_add_loop_test(tests, test, row, (row) + 1)
/* The same for a test that only that server can run. */
#define target_add_test_of(server_, tests, test, row_)                                             \
	do {                                                                                       \
		if (target_row(row_)->server == (server_))                                         \
			target_add_test(tests, test, row_);                                        \
	} while (0)
/* The same for a test that is about the image's file: its allocation, its end, the page cache. */
#define target_add_file_test(tests, test, row_)                                                    \
	do {                                                                                       \
		if (!target_row(row_)->ceph)                                                       \
			target_add_test(tests, test, row_);                                        \
	} while (0)
/* The target of the running test. */
#define TARGET (target_row(_i))

/*
 * Runs a whole program: a test case per row, each test in a process and a scratch directory of its
 * own. Returns main()'s result: 77 if no test can run here, with the
 * reason on standard error.
 */
int
target_main(const char *name, target_tests add_tests, unsigned int needs);

#endif
