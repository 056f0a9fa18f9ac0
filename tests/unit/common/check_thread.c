/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/thread.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>

/* As with taskset(1): of the processors that it may use, the process leaves itself one. */
START_TEST(processors_are_those_that_the_process_may_use)
{
	cpu_set_t set, one;
	int cpu = 0;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	ck_assert_uint_eq(thread_processors(), (unsigned int)CPU_COUNT(&set));
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	ck_assert_uint_eq(thread_processors(), 1);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(set), &set), 0);
}
END_TEST

START_TEST(thread_has_the_name_of_its_kind)
{
	char name[16];

	thread_confine(THREAD_HANDSHAKES);
	ck_assert_int_eq(prctl(PR_GET_NAME, name, 0, 0, 0), 0);
	ck_assert_str_eq(name, "handshakes");
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "process"},
		{.test = processors_are_those_that_the_process_may_use},
		{.test = thread_has_the_name_of_its_kind},
		{0},
	};

	return suite_run("thread", cases);
}
