/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registered files of a ring: places that are given out and come back.
 */
#include "engine/ring.h"

#include "engine/backend.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PAIRS (RING_FILES / 2)

static struct ring ring;
static const int fds[2] = {STDOUT_FILENO, STDERR_FILENO};

static void
begin(void)
{
	ck_assert_int_eq(ring_init(&ring, 4, 4, 0, RING_FILES), 0);
	ck_assert_uint_eq(ring.file_limit, RING_FILES);
}

static void
end(void)
{
	ring_fini(&ring);
}

START_TEST(each_gets_places_of_its_own_until_there_are_none)
{
	bool taken[RING_FILES] = {false};

	for (unsigned int i = 0; i < PAIRS; i++) {
		int first = ring_add_files(&ring, fds, 2);

		ck_assert_int_ge(first, 0);
		ck_assert_int_le(first, RING_FILES - 2);
		ck_assert(!taken[first] && !taken[first + 1]);
		taken[first] = taken[first + 1] = true;
	}
	ck_assert_int_eq(ring_add_files(&ring, fds, 2), -1);
	ring_remove_files(&ring, -1, 2);
	ck_assert_int_eq(ring_add_files(&ring, fds, 2), -1);
}
END_TEST

/* Exports come and go, and the first that came isn't the last to go. */
START_TEST(places_are_given_out_again_whatever_order_they_come_back_in)
{
	int held = ring_add_files(&ring, fds, 2);

	for (unsigned int i = 0; i < 4 * PAIRS; i++) {
		int next = ring_add_files(&ring, fds, 2);

		ck_assert_int_ge(next, 0);
		ck_assert_int_ne(next, held);
		ring_remove_files(&ring, held, 2);
		held = next;
	}
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("ring");
	TCase *files = tcase_create("files");
	char reason[REASON_MAX];
	SRunner *runner;
	int failed;

	if (backend_works(ENGINE_IO_URING, reason) < 0) {
		printf("SKIP: %s\n", reason);
		return 77;
	}
	tcase_add_checked_fixture(files, begin, end);
	tcase_add_test(files, each_gets_places_of_its_own_until_there_are_none);
	tcase_add_test(files, places_are_given_out_again_whatever_order_they_come_back_in);
	suite_add_tcase(suite, files);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
