/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An image is the file itself, whatever happens to its name.
 */
#include "tool/device/image_file.h"

#include "tool/failure.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static char *directory, *image, *other;
static int held;

static void
write_text(const char *path, const char *text)
{
	ck_assert(g_file_set_contents(path, text, -1, NULL));
}

static void
begin(void)
{
	directory = g_dir_make_tmp("nbdloop.XXXXXX", NULL);
	image = g_build_filename(directory, "disk.img", NULL);
	other = g_build_filename(directory, "other.img", NULL);
	write_text(image, "mine");
	write_text(other, "other");
	held = image_file_hold(image, NULL);
	ck_assert_int_ge(held, 0);
}

static void
end(void)
{
	close(held);
	unlink(image);
	unlink(other);
	rmdir(directory);
	g_free(directory);
	g_free(image);
	g_free(other);
}

/* The path for a server, which still leads to the image. */
static void
assert_path(bool wanted_change)
{
	g_autofree char *text = NULL;
	g_autofree char *path = image_file_path(held);

	ck_assert_int_eq(image_file_is_named(image, held), !wanted_change);
	ck_assert(g_file_get_contents(path, &text, NULL, NULL));
	ck_assert_str_eq(text, "mine");
}

static void
assert_name(const char *wanted)
{
	g_autofree char *path = image_file_path(held), *name = image_file_name(path);
	g_autofree char *served = NULL, *other_path = NULL, *named = NULL;
	struct image_identity own;
	struct stat st;

	ck_assert_str_eq(name, wanted);
	ck_assert_int_eq(fstat(held, &st), 0);
	own = image_file_identity(&st);
	served = image_file_served(path, &own, getpid());
	ck_assert_str_eq(served, wanted);
	/* The path of a process that is gone, or of another one with its number. */
	other_path = image_file_served("/proc/1/fd/1000000", &own, getpid());
	ck_assert_str_eq(other_path, wanted);
	named = image_file_served(other, &own, getpid());
	ck_assert_str_eq(named, wanted);
}

START_TEST(link_to_the_image_names_it)
{
	g_autofree char *link = g_build_filename(directory, "link", NULL),
			*name = image_file_name("/proc/disk.img");

	assert_path(false);
	assert_name(image);
	ck_assert_int_eq(rename(image, link), 0);
	ck_assert_int_eq(symlink(link, image), 0);
	assert_path(false);
	ck_assert_int_eq(unlink(link), 0);
	/* It only looks like a path of nbdloop's. */
	ck_assert_str_eq(name, "/proc/disk.img");
}
END_TEST

START_TEST(another_file_of_its_name_is_not_the_image)
{
	g_autofree char *renamed = g_build_filename(directory, "renamed.img", NULL);

	ck_assert_int_eq(rename(image, renamed), 0);
	assert_path(true);
	assert_name(renamed);
	write_text(image, "somebody else's");
	assert_path(true);
	assert_name(renamed);
	ck_assert_int_eq(unlink(renamed), 0);
}
END_TEST

START_TEST(link_to_another_file_is_not_the_image)
{
	ck_assert_int_eq(unlink(image), 0);
	ck_assert_int_eq(symlink(other, image), 0);
	assert_path(true);
}
END_TEST

START_TEST(deleted_image_is_there_as_long_as_it_is_held)
{
	g_autofree char *deleted = g_strconcat(image, " (deleted)", NULL);

	ck_assert_int_eq(unlink(image), 0);
	assert_path(true);
	assert_name(deleted);
}
END_TEST

/* Whether it is the image of a server that reports these numbers; `device` NULL: none. */
static bool
is_told(const struct stat *st, const char *device, gint64 inode)
{
	json_t *export =
		device ? json_pack("{s:s,s:I}", "device", device, "inode", (json_int_t)inode)
		       : json_object();
	bool told = image_file_is_export(st, export);

	json_decref(export);
	return told;
}

START_TEST(numbers_of_a_server_tell_the_image)
{
	struct stat st;
	g_autofree char *device = NULL;

	ck_assert_int_eq(fstat(held, &st), 0);
	device = g_strdup_printf("%u:%u", major(st.st_dev), minor(st.st_dev));
	ck_assert(is_told(&st, device, (gint64)st.st_ino));
	ck_assert(!is_told(&st, device, (gint64)st.st_ino + 1));
	ck_assert(!is_told(&st, "0:0", (gint64)st.st_ino));
	ck_assert(!is_told(&st, "nonsense", (gint64)st.st_ino));
	ck_assert(!is_told(&st, NULL, -1));
	st.st_mode = S_IFBLK | 0600;
	st.st_rdev = makedev(259, 7);
	ck_assert(is_told(&st, "259:7", 0));
	ck_assert(!is_told(&st, device, (gint64)st.st_ino));
}
END_TEST

START_TEST(inode_number_may_have_64_bits)
{
	const struct stat st = {.st_mode = S_IFREG | 0600,
				.st_dev = makedev(0, 50),
				.st_ino = (ino_t)UINT64_MAX - 1};
	g_autofree char *number = g_strdup_printf("%ju", (uintmax_t)st.st_ino);
	json_auto_t *export = json_pack("{s:s,s:s}", "device", "0:50", "inode", number);

	ck_assert(image_file_is_export(&st, export));
}
END_TEST

START_TEST(what_is_no_image_is_refused)
{
	g_autoptr(GError) error = NULL;

	ck_assert_ptr_null(image_file_find(directory, &error));
	ck_assert(failure_is(error, EINVAL));
	g_clear_error(&error);
	ck_assert_ptr_null(image_file_find("/no/such/image", &error));
	ck_assert(failure_is(error, ENOENT));
	g_clear_error(&error);
	ck_assert_int_eq(image_file_hold("/no/such/image", &error), -1);
	ck_assert(failure_is(error, ENOENT));
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "names", .begin = begin, .end = end},
		{.test = link_to_the_image_names_it},
		{.test = another_file_of_its_name_is_not_the_image},
		{.test = link_to_another_file_is_not_the_image},
		{.test = deleted_image_is_there_as_long_as_it_is_held},
		{.test = numbers_of_a_server_tell_the_image},
		{.test = inode_number_may_have_64_bits},
		{.test = what_is_no_image_is_refused},
		{0},
	};

	return suite_run("image_file", cases);
}
