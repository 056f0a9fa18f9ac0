/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A test that can't run here isn't added to its suite, so that it never counts as passed; the line
 * is what tests/run-check reads.
 */
#ifndef TESTS_UNIT_SKIP_H
#define TESTS_UNIT_SKIP_H

#include <check.h>
#include <stdio.h>

/* `reason`: why the test can't run, or NULL. */
#define add_test_unless(reason, tests, test)                                                       \
	do {                                                                                       \
		const char *reason_ = (reason);                                                    \
                                                                                                   \
		if (reason_)                                                                       \
			printf("SKIP: %s: %s\n", #test, reason_);                                  \
		else                                                                               \
			tcase_add_test(tests, test);                                               \
	} while (0)

#endif
