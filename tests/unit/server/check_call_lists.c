/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lists of system calls have, besides a call, what 32-bit machines have in its place: a C
 * library of i386 asks for "geteuid32" and "futex_time64".
 */
#include "server/sandbox/call_filter.h"
#include "server/sandbox/call_lists.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <linux/netlink.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const *const lists[] = {
	basic_calls,  stream_calls, page_cache_calls, file_calls, socket_calls,
	accept_calls, aio_calls,    ring_calls,       open_calls, name_calls,
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

/* What the main thread may not do, though a call of that number is allowed. */
static const struct {
	long call, first, second;
} refused[] = {
	{SYS_socket, AF_INET, SOCK_DGRAM},  {SYS_socket, AF_INET, SOCK_STREAM},
	{SYS_socket, AF_NETLINK, SOCK_RAW}, {SYS_prlimit64, 1, RLIMIT_NOFILE},
	{SYS_io_uring_setup, 1, 0},
};

/* Runs in a process of its own, which ends with 0 if the call is refused. */
static _Noreturn void
try_refused(unsigned int i)
{
	const char *reason;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || call_filters_make(false, &reason) < 0 ||
	    call_filter_enter(FILTER_PROCESS) < 0)
		_exit(2);
	_exit(syscall(refused[i].call, refused[i].first, refused[i].second, 0, 0) < 0 &&
			      errno == ENOSYS
		      ? 0
		      : 1);
}

START_TEST(process_is_refused_what_no_thread_needs)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		try_refused((unsigned int)_i);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* Whether a call that syslog() makes is allowed: it fails for its own reason then. */
static bool
is_allowed(long call, long first, long second)
{
	return syscall(call, first, second, 0, 0, 0, 0) >= 0 || errno != ENOSYS;
}

/* Runs in a process of its own, which ends with 0 if the kind of thread can write to the log. */
static _Noreturn void
try_syslog(unsigned int kind)
{
	const char *reason;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || call_filters_make(true, &reason) < 0 ||
	    call_filter_enter(kind) < 0)
		_exit(2);
	_exit(is_allowed(SYS_socket, AF_UNIX, SOCK_DGRAM) && is_allowed(SYS_connect, -1, 0) &&
			      is_allowed(SYS_sendto, -1, 0)
		      ? 0
		      : 1);
}

START_TEST(each_thread_writes_to_syslog)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		try_syslog((unsigned int)_i);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "lists"},
		{.test = list_has_the_forms_of_32_bits, .last = LISTS},
		{.test = process_is_refused_what_no_thread_needs,
		 .last = sizeof(refused) / sizeof(refused[0]),
		 .reason = getenv("NBDLOOP_VALGRIND") ? "valgrind makes no filters" : NULL},
		/* The thread that makes rings, the last kind, has nothing to tell. */
		{.test = each_thread_writes_to_syslog,
		 .last = THREAD_RINGS,
		 .reason = getenv("NBDLOOP_VALGRIND") ? "valgrind makes no filters" : NULL},
		{0},
	};

	return suite_run("call lists", cases);
}
