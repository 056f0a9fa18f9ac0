/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file with the server's process ID: a name that was given by mistake must not cost a file, and
 * two servers must not remove each other's.
 */
#include "server/daemon/pid_file.h"

#include "tests/lib/suite.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[SCRATCH_PATH], path[SCRATCH_PATH + 16], other[SCRATCH_PATH + 16], own[16];
static struct pid_file file;
static char *error;

static void
begin_once(void)
{
	scratch_directory_new(directory);
	snprintf(path, sizeof(path), "%s/pid", directory);
	snprintf(other, sizeof(other), "%s/other", directory);
}

static void
end_once(void)
{
	scratch_directory_remove(directory);
}

static void
begin(void)
{
	snprintf(own, sizeof(own), "%d\n", (int)getpid());
	unlink(path);
	unlink(other);
	error = NULL;
}

static void
end(void)
{
	pid_file_close(&file);
	free(error);
}

static void
put(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

/* NULL: there is none. */
static void
assert_holds(const char *name, const char *text)
{
	char there[64] = "";
	int fd = open(name, O_RDONLY | O_CLOEXEC);

	ck_assert_int_eq(fd >= 0, text != NULL);
	if (!text)
		return;
	ck_assert_int_ge(read(fd, there, sizeof(there) - 1), 0);
	close(fd);
	ck_assert_str_eq(there, text);
}

START_TEST(file_has_the_process_id_until_it_is_closed)
{
	ck_assert_int_eq(pid_file_open(&file, path, &error), 0);
	assert_holds(path, "");
	ck_assert_int_eq(pid_file_write(&file, &error), 0);
	assert_holds(path, own);
	pid_file_close(&file);
	assert_holds(path, NULL);
}
END_TEST

START_TEST(no_file_is_made_that_is_not_wanted)
{
	ck_assert_int_eq(pid_file_open(&file, NULL, &error), 0);
	ck_assert_int_eq(pid_file_write(&file, &error), 0);
	pid_file_close(&file);
	assert_holds(path, NULL);
}
END_TEST

START_TEST(file_that_is_no_pid_file_is_left_alone)
{
	put(path, "12 monkeys\n");
	ck_assert_int_eq(pid_file_open(&file, path, &error), -EEXIST);
	ck_assert_ptr_nonnull(strstr(error, path));
	ck_assert_ptr_nonnull(strstr(error, "left alone"));
	pid_file_close(&file);
	assert_holds(path, "12 monkeys\n");
}
END_TEST

START_TEST(directory_is_refused)
{
	ck_assert_int_lt(pid_file_open(&file, directory, &error), 0);
	ck_assert_ptr_nonnull(strstr(error, directory));
}
END_TEST

START_TEST(symbolic_link_is_not_followed)
{
	put(other, "");
	ck_assert_int_eq(symlink(other, path), 0);
	ck_assert_int_eq(pid_file_open(&file, path, &error), -ELOOP);
	ck_assert_ptr_nonnull(strstr(error, "symbolic link"));
	assert_holds(other, "");
}
END_TEST

/* The server that left it may still run, when this one can't start. */
START_TEST(leftover_is_replaced_when_the_server_is_ready)
{
	put(path, "1\n");
	ck_assert_int_eq(pid_file_open(&file, path, &error), 0);
	assert_holds(path, "1\n");
	ck_assert_int_eq(pid_file_write(&file, &error), 0);
	assert_holds(path, own);
}
END_TEST

START_TEST(leftover_stays_when_the_server_does_not_get_ready)
{
	put(path, "1\n");
	ck_assert_int_eq(pid_file_open(&file, path, &error), 0);
	pid_file_close(&file);
	assert_holds(path, "1\n");
}
END_TEST

START_TEST(own_file_goes_when_the_server_does_not_get_ready)
{
	ck_assert_int_eq(pid_file_open(&file, path, &error), 0);
	pid_file_close(&file);
	assert_holds(path, NULL);
}
END_TEST

START_TEST(process_id_of_another_server_is_not_removed)
{
	ck_assert_int_eq(pid_file_open(&file, path, &error), 0);
	ck_assert_int_eq(pid_file_write(&file, &error), 0);
	put(path, "1\n");
	pid_file_close(&file);
	assert_holds(path, "1\n");
}
END_TEST

START_TEST(file_that_took_its_place_is_not_removed)
{
	ck_assert_int_eq(pid_file_open(&file, path, &error), 0);
	ck_assert_int_eq(pid_file_write(&file, &error), 0);
	put(other, own);
	ck_assert_int_eq(rename(other, path), 0);
	pid_file_close(&file);
	assert_holds(path, own);
}
END_TEST

START_TEST(text_that_came_meanwhile_is_not_overwritten)
{
	ck_assert_int_eq(pid_file_open(&file, path, &error), 0);
	put(path, "a diary");
	ck_assert_int_eq(pid_file_write(&file, &error), -EEXIST);
	pid_file_close(&file);
	assert_holds(path, "a diary");
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "pid file",
		 .begin_once = begin_once,
		 .end_once = end_once,
		 .begin = begin,
		 .end = end},
		{.test = file_has_the_process_id_until_it_is_closed},
		{.test = no_file_is_made_that_is_not_wanted},
		{.test = file_that_is_no_pid_file_is_left_alone},
		{.test = directory_is_refused},
		{.test = symbolic_link_is_not_followed},
		{.test = leftover_is_replaced_when_the_server_is_ready},
		{.test = leftover_stays_when_the_server_does_not_get_ready},
		{.test = own_file_goes_when_the_server_does_not_get_ready},
		{.test = process_id_of_another_server_is_not_removed},
		{.test = file_that_took_its_place_is_not_removed},
		{.test = text_that_came_meanwhile_is_not_overwritten},
		{0},
	};

	return suite_run("pid_file", cases);
}
