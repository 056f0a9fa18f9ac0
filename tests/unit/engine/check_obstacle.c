/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a file can't be written to. Swap files, immutable files and mounts need root, and are tested
 * from the command line.
 */
#include "engine/backing/file/obstacle.h"

#include "engine/backing/kind.h"
#include "engine/backing/open.h"
#include "engine/image_config.h"

#include "tests/lib/suite.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[SCRATCH_PATH], path[SCRATCH_PATH + 16];
static struct backing backing;

static void
begin(void)
{
	scratch_directory_new(directory);
	if (chmod(directory, 0755) < 0)
		abort();
	snprintf(path, sizeof(path), "%s/disk.img", directory);
}

static void
end(void)
{
	scratch_directory_remove(directory);
}

static void
make(mode_t mode)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 10000) | fchmod(fd, mode), 0);
	close(fd);
}

static void
open_file(unsigned int flags)
{
	char *error = NULL;

	ck_assert_int_eq(
		backing_open(&backing, AT_FDCWD, path, flags, &(struct image_config){0}, &error),
		0);
}

/* Root may do everything, so tests of permissions run as another user. */
static void
be_nobody(bool nobody)
{
	if (getuid() != 0)
		return;
	ck_assert_int_eq(seteuid(nobody ? 65534 : 0), 0);
	ck_assert_int_eq(prctl(PR_SET_DUMPABLE, 1), 0); /* sanitizers look at their own process */
}

START_TEST(file_of_another_user_says_whose_it_is)
{
	char reason[REASON_MAX];

	make(0444);
	be_nobody(true);
	open_file(0);
	ck_assert(!backing.writable);
	ck_assert(!obstacle_is_gone(&backing));
	snprintf(reason, sizeof(reason),
		 "it belongs to user %u, group %u, with mode 0444, and this process is user %u, "
		 "group %u",
		 getuid(), getgid(), geteuid(), getegid());
	ck_assert_str_eq(backing.read_only_reason, reason);
	be_nobody(false);
	ck_assert_int_eq(chmod(path, 0666), 0);
	be_nobody(true);
	ck_assert(obstacle_is_gone(&backing));
	be_nobody(false);
	backing_close(&backing);
}
END_TEST

START_TEST(file_that_is_only_to_be_read_has_no_obstacle)
{
	make(0644);
	open_file(BACKING_READ_ONLY);
	ck_assert(!backing.writable);
	ck_assert_str_eq(backing.read_only_reason, "");
	ck_assert(!obstacle_is_gone(&backing));
	backing_close(&backing);
}
END_TEST

START_TEST(question_about_an_obstacle_changes_no_file)
{
	char reason[REASON_MAX];
	struct stat before, after;

	make(0644);
	open_file(0);
	ck_assert_str_eq(backing.read_only_reason, "");
	ck_assert_int_eq(fstat(backing.fd, &before), 0);
	ck_assert(!obstacle_find(&backing, reason));
	ck_assert_str_eq(reason, "");
	ck_assert_int_eq(fstat(backing.fd, &after), 0);
	ck_assert_int_eq(after.st_size, 10000);
	ck_assert_int_eq(after.st_blocks, before.st_blocks);
	ck_assert_int_eq(memcmp(&after.st_mtim, &before.st_mtim, sizeof(after.st_mtim)), 0);
	ck_assert_int_eq(memcmp(&after.st_ctim, &before.st_ctim, sizeof(after.st_ctim)), 0);
	backing_close(&backing);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "obstacle", .begin_once = begin, .end_once = end},
		{.test = file_of_another_user_says_whose_it_is},
		{.test = file_that_is_only_to_be_read_has_no_obstacle},
		{.test = question_about_an_obstacle_changes_no_file},
		{0},
	};

	return suite_run("obstacle", cases);
}
