/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the sandbox leaves a server of its images: their directories, but of a directory of the
 * system only the image itself; and of its configuration: also what links lead to.
 */
#include "server/sandbox/grants.h"

#include "server/config/server_config.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
	const struct export_config export = {.file = file};
	struct stat st;

	if (lstat(row->directory, &st) < 0 || !S_ISDIR(st.st_mode))
		return;
	snprintf(file, sizeof(file), "%s/no-such.img",
		 strcmp(row->directory, "/") == 0 ? "" : row->directory);
	ck_assert_int_eq(grants_visit_export(&export, note, &told), 0);
	ck_assert_str_eq(told.path[0], row->whole ? row->directory : file);
	/* What can't be made beside it has another place. */
	ck_assert_uint_eq(told.count, row->whole ? 1 : 2);
	if (!row->whole)
		ck_assert_str_eq(told.path[1], "/var/tmp");
}
END_TEST

struct sought {
	const char *path;
	bool found;
};

static int
seek_readable(void *data, const char *path, enum grant_use use)
{
	struct sought *sought = data;

	sought->found = sought->found || (use == GRANT_READ && strcmp(path, sought->path) == 0);
	return 0;
}

static bool
may_read(const struct server_config *config, const char *path)
{
	struct sought sought = {.path = path};

	ck_assert_int_eq(grants_visit_server(config, NULL, seek_readable, &sought), 0);
	return sought.found;
}

/* In a directory of its own, whose path is the part before the last slash. */
static void
make_linked_file(char path[], const char *link)
{
	ck_assert_ptr_nonnull(mkdtemp(path));
	strcat(path, "/file");
	ck_assert_int_eq(mknod(path, S_IFREG | 0600, 0), 0);
	ck_assert_int_eq(symlink(path, link), 0);
}

START_TEST(links_to_included_files_bring_the_directories_of_these)
{
	char included[] = "/tmp/check-grants-XXXXXX", link[64], left_out[64];
	char file[64] = "/tmp/check-grants-XXXXXX", other[64] = "/tmp/check-grants-XXXXXX";
	char *directories[] = {included, NULL};
	const struct server_config config = {.include = directories};

	ck_assert_ptr_nonnull(mkdtemp(included));
	snprintf(link, sizeof(link), "%s/a.conf", included);
	snprintf(left_out, sizeof(left_out), "%s/a.conf~", included);
	make_linked_file(file, link);
	make_linked_file(other, left_out);
	*strrchr(file, '/') = *strrchr(other, '/') = '\0';
	ck_assert(may_read(&config, included));
	ck_assert(may_read(&config, file));
	ck_assert(!may_read(&config, other));
	unlink(link);
	unlink(left_out);
	/* Files are added later. */
	ck_assert(may_read(&config, included));
	rmdir(included);
	file[strlen(file)] = other[strlen(other)] = '/';
	unlink(file);
	unlink(other);
	*strrchr(file, '/') = *strrchr(other, '/') = '\0';
	rmdir(file);
	rmdir(other);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "images"},
		{.test = image_brings_its_directory_unless_that_is_too_wide, .last = ROWS},
		{.name = "configuration"},
		{.test = links_to_included_files_bring_the_directories_of_these},
		{0},
	};

	return suite_run("grants", cases);
}
