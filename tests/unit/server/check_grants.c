/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the sandbox leaves a server of its images: their directories, but of a directory of the
 * system only the image itself.
 */
#include "server/sandbox/grants.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MOST 3

struct told {
	unsigned int count;
	char path[MOST][128];
};

static int
note(void *data, const char *path, enum grant_use use)
{
	struct told *told = data;

	ck_assert_int_eq(use, GRANT_CHANGE);
	ck_assert_uint_lt(told->count, MOST);
	snprintf(told->path[told->count++], sizeof(told->path[0]), "%s", path);
	return 0;
}

static const struct row {
	const char *directory;
	bool whole;
} rows[] = {
	{"/srv", true},         {"/mnt", true},       {"/tmp", true},      {"/var/tmp", true},
	{"/", false},           {"/boot", false},     {"/dev", false},     {"/etc", false},
	{"/etc/init.d", false}, {"/home", false},     {"/opt", false},     {"/root", true},
	{"/run", false},        {"/usr", false},      {"/usr/bin", false}, {"/var", false},
	{"/var/lib", false},    {"/proc/sys", false},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* The image need not be there, but its directory, by this name. */
START_TEST(image_brings_its_directory_unless_that_is_too_wide)
{
	const struct row *row = &rows[_i];
	struct told told = {0};
	char file[64];
	struct stat st;

	if (lstat(row->directory, &st) < 0 || !S_ISDIR(st.st_mode))
		return;
	snprintf(file, sizeof(file), "%s/no-such.img",
		 strcmp(row->directory, "/") == 0 ? "" : row->directory);
	ck_assert_int_eq(grants_visit_export(file, NULL, note, &told), 0);
	ck_assert_str_eq(told.path[0], row->whole ? row->directory : file);
	/* What can't be made beside it has another place. */
	ck_assert_uint_eq(told.count, row->whole ? 1 : 2);
	if (!row->whole)
		ck_assert_str_eq(told.path[1], "/var/tmp");
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "images"},
		{.test = image_brings_its_directory_unless_that_is_too_wide, .last = ROWS},
		{0},
	};

	return suite_run("grants", cases);
}
