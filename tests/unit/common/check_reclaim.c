/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/reclaim.h"

#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long
locked_kib(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	unsigned long kib = 0;
	char line[256];

	ck_assert_ptr_nonnull(status);
	while (fgets(line, sizeof(line), status) && sscanf(line, "VmLck: %lu", &kib) != 1)
		;
	fclose(status);
	return kib;
}

static const struct {
	size_t heap;
	uint64_t later;
} too_much[] = {{0, UINT64_MAX}, {4096, UINT64_MAX}, {4096, UINT64_MAX / 2}};

/* A kernel whose remaining memory is all locked stops: "System is deadlocked on memory". */
START_TEST(locking_more_than_half_of_the_memory_is_refused_with_the_way_out)
{
	static const char way_out[] = "a smaller --memory makes it less";
	char *error = NULL;

	ck_assert_int_eq(
		reclaim_lock_memory(too_much[_i].heap, too_much[_i].later, false, way_out, &error),
		-ENOMEM);
	ck_assert_ptr_nonnull(error);
	ck_assert_ptr_nonnull(strstr(error, " MiB would be taken and locked, of "));
	ck_assert_ptr_nonnull(strstr(error, way_out));
	free(error);
	ck_assert_uint_eq(locked_kib(), 0);
}
END_TEST

/* Sanitizers forbid locked memory, and read in more than the program's own files. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* As for a server that replaces one that has died; the memory that it needs is not tested here. */
START_TEST(forced_locking_of_more_than_half_only_warns)
{
	char *error = NULL;
	int r;

	log_capture_begin();
	r = reclaim_lock_memory(4096, UINT64_MAX / 2, true, "a smaller --memory makes it less",
				&error);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, " MiB of available memory"));
	/* Not every user may lock memory. */
	ck_assert(r == 0 || (error && !strstr(error, "would be taken")));
	ck_assert(r < 0 || locked_kib() > 0);
	log_capture_end();
	free(error);
}
END_TEST
#endif

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "reclaim"},
		{.test = locking_more_than_half_of_the_memory_is_refused_with_the_way_out,
		 .last = sizeof(too_much) / sizeof(*too_much)},
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		{.test = forced_locking_of_more_than_half_only_warns},
#endif
		{0},
	};

	return suite_run("reclaim", cases);
}
