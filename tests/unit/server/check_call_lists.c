/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lists of system calls have, besides a call, what 32-bit machines have in its place: a C
 * library of i386 asks for "geteuid32" and "futex_time64".
 */
#include "server/sandbox/call_lists.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const *const lists[] = {basic_calls,  file_calls,   socket_calls,
					   aio_calls,    ring_calls,   open_calls,
					   change_calls, deadly_calls, ring_making_calls};

#define LISTS (sizeof(lists) / sizeof(lists[0]))

static bool
is_in(const char *const *list, const char *name)
{
	while (*list && strcmp(*list, name) != 0)
		list++;
	return *list != NULL;
}

START_TEST(list_has_the_forms_of_32_bits)
{
	static const char *const forms[] = {"32", "64", "_time64"};

	for (const char *const *name = lists[_i]; *name; name++) {
		for (unsigned int i = 0; i < 3; i++) {
			char form[64];

			snprintf(form, sizeof(form), "%s%s", *name, forms[i]);
			if (seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86, form) >= 0)
				ck_assert_msg(is_in(lists[_i], form), "%s, but not %s", *name,
					      form);
		}
	}
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "lists"},
		{.test = list_has_the_forms_of_32_bits, .last = LISTS},
		{0},
	};

	return suite_run("call lists", cases);
}
