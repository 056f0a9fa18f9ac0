/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/tool/system_tree.h"

#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[SCRATCH_PATH], root[SCRATCH_PATH + 32];

/* Longest path of a file in the tree. */
#define PLACE (sizeof(root) + 256)

/* The path in the tree, whose directories are made. */
static const char *
place_of(const char *path)
{
	static char place[PLACE];

	snprintf(place, sizeof(place), "%s/%s", root, path);
	for (char *slash = strchr(place + strlen(root) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		ck_assert(mkdir(place, 0700) == 0 || errno == EEXIST);
		*slash = '/';
	}
	return place;
}

static void
put(const char *path, const char *text, const char *mode)
{
	FILE *file = fopen(place_of(path), mode);

	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	ck_assert_int_eq(fclose(file), 0);
}

void
tree_write(const char *path, const char *text)
{
	put(path, text, "w");
}

void
tree_link(const char *path, const char *target)
{
	const char *place = place_of(path);

	unlink(place);
	ck_assert_int_eq(symlink(target, place), 0);
}

void
tree_remove(const char *path)
{
	ck_assert_int_eq(unlink(place_of(path)), 0);
}

/* "PATH: a line of the file", or "PATH -> TARGET", as tests/lib/system_tree.py writes them. */
static void
take_line(char *line)
{
	char *arrow = strstr(line, " -> "), *colon = strstr(line, ": ");

	if (line[0] == '#' || line[0] == '\n')
		return;
	if (colon && (!arrow || colon < arrow)) {
		*colon = '\0';
		put(line, colon + 2, "a");
	} else {
		ck_assert_ptr_nonnull(arrow);
		*arrow = '\0';
		arrow[strcspn(arrow + 1, "\n") + 1] = '\0';
		tree_link(line, arrow + 4);
	}
}

void
tree_new(void)
{
	scratch_directory_new(directory);
}

void
tree_begin(void)
{
	static unsigned int count;
	const char *top = getenv("top_srcdir");
	char path[PLACE], line[1024];
	FILE *recording;

	/* Tests without processes of their own (CK_FORK=no) come here one after the other. */
	snprintf(root, sizeof(root), "%s/%d-%u", directory, (int)getpid(), count++);
	ck_assert_int_eq(mkdir(root, 0700), 0);
	setenv("NBDLOOP_SYSROOT", root, 1);
	ck_assert_msg(top, "the variable top_srcdir must name the top of the source tree: "
			   "top_srcdir=$PWD tests/unit/tool/check_...");
	snprintf(path, sizeof(path), "%s/tests/lib/system_tree.txt", top);
	recording = fopen(path, "r");
	ck_assert_msg(recording, "%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), recording))
		take_line(line);
	fclose(recording);
}

void
tree_free(void)
{
	scratch_directory_remove(directory);
}
