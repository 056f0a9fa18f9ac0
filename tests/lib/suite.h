/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A suite of Check as a table:
 *
 *	const struct suite_row cases[] = {
 *		{.name = "limit", .begin = begin, .end = end},
 *		{.test = limit_holds_until_one_is_given_back},
 *		{.test = each_size_fits, .last = SIZES},
 *		{0},
 *	};
 *
 *	return suite_run("pool", cases);
 */
#ifndef TESTS_LIB_SUITE_H
#define TESTS_LIB_SUITE_H

#include <check.h>

struct suite_row {
	const char *name; /* begins a test case of this name, to which the next rows belong */

	/* These belong to the test case; a later row may add a further pair. */
	void (*begin)(void);      /* before each test, in its process */
	void (*end)(void);        /* after each test */
	void (*begin_once)(void); /* before the first test, in the suite's process */
	void (*end_once)(void);   /* after the last one */
	double seconds;           /* limit of one test; 0: what tests/run-check sets */

	const TTest *test;
	int first, last; /* the test runs with _i = first ... last - 1; both 0: once, with 0 */
	/* Why the test can't run here, or NULL.  Such a test counts as skipped. */
	const char *reason;
};

/* Why memory may not be locked, although a suite alone could: all programs of an ordinary user
 * share the limit, and many suites run at once; or NULL.  For .reason. */
const char *
locked_memory_is_shared(void);

/* Runs the table, which a row of zeroes ends.  Returns main()'s result. */
int
suite_run(const char *name, const struct suite_row *rows);

/* Adds the rows of a table to a suite, */
void
suite_add(Suite *suite, const struct suite_row *rows);

/* which this runs and frees.  Returns main()'s result. */
int
suite_finish(Suite *suite);

#endif
