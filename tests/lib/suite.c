/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static bool
has_fixture(const struct suite_row *row)
{
	return row->begin || row->end || row->begin_once || row->end_once;
}

static void
set_up(TCase *tests, const struct suite_row *row)
{
	if (row->begin || row->end)
		tcase_add_checked_fixture(tests, row->begin, row->end);
	if (row->begin_once || row->end_once)
		tcase_add_unchecked_fixture(tests, row->begin_once, row->end_once);
	if (row->seconds > 0)
		tcase_set_timeout(tests, row->seconds);
}

/* A test that can't run is not added, and so never counts as passed; tests/run-check reads this
 * line. */
static void
add_test(TCase *tests, const struct suite_row *row)
{
	if (row->reason)
		printf("SKIP: %s: %s\n", row->test->name, row->reason);
	else
		tcase_add_loop_test(tests, row->test, row->first, row->last ? row->last : 1);
}

void
suite_add(Suite *suite, const struct suite_row *row)
{
	TCase *tests = NULL;

	/* Check's own limit, 4 seconds, is too short for a busy machine. */
	setenv("CK_DEFAULT_TIMEOUT", "60", 0);
	for (; row->name || row->test || has_fixture(row); row++) {
		if (row->name) {
			tests = tcase_create(row->name);
			suite_add_tcase(suite, tests);
		}
		set_up(tests, row);
		if (row->test)
			add_test(tests, row);
	}
}

int
suite_finish(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

const char *
locked_memory_is_shared(void)
{
	struct rlimit limit;

	if (geteuid() == 0 || getrlimit(RLIMIT_MEMLOCK, &limit) < 0 ||
	    limit.rlim_cur == RLIM_INFINITY)
		return NULL;
	return "this user's programs share a limit of locked memory (ulimit -l)";
}

int
suite_run(const char *name, const struct suite_row *rows)
{
	Suite *suite = suite_create(name);

	suite_add(suite, rows);
	return suite_finish(suite);
}
