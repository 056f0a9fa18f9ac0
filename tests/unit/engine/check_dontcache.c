/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where RWF_DONTCACHE can be used.
 */
#include "engine/backing/dontcache.h"

#include "tests/lib/suite.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const struct {
	const char *release, *reason; /* NULL: it can be used */
} kernels[] = {
	{"6.18.44", NULL},
	{"6.16.0-rc1+", NULL},
	{"7.0.0-amd64", NULL},
	{"10.1", NULL},
	{"6.15.11-cloud", "Linux 6.15 may lose writes with it"},
	{"6.14.0", "Linux 6.14 may lose writes with it"},
	{"6.12.57+deb13-amd64", "Linux 6.12 does not know it"},
	{"6.1.0-44-amd64", "Linux 6.1 does not know it"},
	{"5.19.0", "Linux 5.19 does not know it"},
	{"", "Linux 0.0 does not know it"},
};

START_TEST(kernel_that_may_lose_writes_is_not_trusted)
{
	char reason[REASON_MAX] = "";

	ck_assert_int_eq(dontcache_kernel(kernels[_i].release, reason),
			 kernels[_i].reason ? -EOPNOTSUPP : 0);
	ck_assert_str_eq(reason, kernels[_i].reason ? kernels[_i].reason : "");
}
END_TEST

/* Whether the kernel is trusted and takes the flag for this file. */
static bool
is_taken(int fd)
{
	struct iovec iov = {.iov_base = (char[]){0}, .iov_len = 1};
	char reason[REASON_MAX];
	struct utsname name;

	return uname(&name) == 0 && dontcache_kernel(name.release, reason) == 0 &&
	       preadv2(fd, &iov, 1, 0, RWF_DONTCACHE) >= 0;
}

START_TEST(file_system_is_asked)
{
	char reason[REASON_MAX] = "";
	int fd = scratch_file(4096);
	int r = dontcache_learn(fd, reason);

	ck_assert_int_eq(r, is_taken(fd) ? 0 : -EOPNOTSUPP);
	ck_assert((r == 0) == (reason[0] == '\0'));
	close(fd);
}
END_TEST

START_TEST(file_in_memory_does_not_support_it)
{
	char reason[REASON_MAX] = "";
	int fd = scratch_memory_file(4096);

	ck_assert_int_eq(dontcache_learn(fd, reason), -EOPNOTSUPP);
	ck_assert_str_ne(reason, "");
	close(fd);
}
END_TEST

START_TEST(failure_of_the_test_is_told)
{
	char reason[REASON_MAX] = "";
	struct utsname name;

	ck_assert_int_eq(dontcache_learn(-1, reason), -EOPNOTSUPP);
	ck_assert_int_eq(uname(&name), 0);
	if (dontcache_kernel(name.release, (char[REASON_MAX]){0}) == 0)
		ck_assert_str_eq(reason,
				 "a read of the first byte with it failed: Bad file descriptor");
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "dontcache"},
		{.test = kernel_that_may_lose_writes_is_not_trusted,
		 .last = sizeof(kernels) / sizeof(kernels[0])},
		{.test = file_system_is_asked},
		{.test = file_in_memory_does_not_support_it},
		{.test = failure_of_the_test_is_told},
		{0},
	};

	return suite_run("dontcache", cases);
}
