/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach --swap: the kernel's reserve of memory in a recorded tree, and images with holes.
 */
#include "tool/verb/swap_space.h"

#include "tool/failure.h"
#include "tool/system_file.h"
#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/scratch_file.h"
#include "tests/unit/tool/system_tree.h"

#include <check.h>
#include <errno.h>
#include <unistd.h>

#define RESERVE "proc/sys/vm/min_free_kbytes"
#define SIZE    ((uint64_t)1 << 20)

static struct attach_options options;
static GError *error;
static char path[SCRATCH_PATH];
static int image;

static void
begin(void)
{
	tree_begin();
	log_capture_begin();
	options = (struct attach_options){.swap = SWAP_ON};
	image = scratch_file(SIZE);
	scratch_fill(image, 0, SIZE);
	scratch_path(image, path);
}

static void
end(void)
{
	close(image);
	g_clear_error(&error);
	log_capture_end();
}

static void
assert_reserve(const char *wanted)
{
	char *text = system_file_read("/" RESERVE);

	ck_assert_pstr_eq(text, wanted);
	g_free(text);
}

static void
assert_prepared(bool remote)
{
	ck_assert_msg(swap_space_prepare(&options, remote ? "nbd://host" : path, remote, &error),
		      "%s", error ? error->message : "?");
}

START_TEST(small_reserve_is_refused_with_the_way_out)
{
	tree_write(RESERVE, "2087\n");
	ck_assert(!swap_space_prepare(&options, path, false, &error));
	ck_assert(failure_is(error, ENOMEM));
	ck_assert_ptr_nonnull(strstr(error->message, "vm.min_free_kbytes, is 2087"));
	ck_assert_ptr_nonnull(strstr(error->message, "--swap=raise"));
	ck_assert_ptr_nonnull(strstr(error->message, "sysctl -w vm.min_free_kbytes=8192"));
	assert_reserve("2087");
}
END_TEST

START_TEST(force_only_warns_of_a_small_reserve)
{
	tree_write(RESERVE, "8191\n");
	options.force = 1;
	assert_prepared(false);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "is 8191 instead of 8192"));
	assert_reserve("8191");
}
END_TEST

START_TEST(raise_raises_a_small_reserve)
{
	tree_write(RESERVE, "2087\n");
	options.swap = SWAP_RAISE;
	assert_prepared(false);
	ck_assert(
		log_capture_has(LOG_LEVEL_WARNING, "vm.min_free_kbytes is 8192 now; it was 2087."));
	assert_reserve("8192");
}
END_TEST

START_TEST(large_reserve_stays)
{
	tree_write(RESERVE, "67584\n");
	assert_prepared(false);
	options.swap = SWAP_RAISE;
	assert_prepared(false);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 0);
	assert_reserve("67584");
}
END_TEST

/* The server of a URI has the memory of its own machine. */
START_TEST(uri_needs_no_reserve_but_may_raise_it)
{
	tree_write(RESERVE, "2087\n");
	assert_prepared(true);
	assert_reserve("2087");
	options.swap = SWAP_RAISE;
	assert_prepared(true);
	assert_reserve("8192");
}
END_TEST

START_TEST(without_swap_nothing_is_looked_at)
{
	tree_write(RESERVE, "2087\n");
	options.swap = SWAP_OFF;
	ck_assert_int_eq(ftruncate(image, SIZE * 2), 0);
	assert_prepared(false);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 0);
}
END_TEST

START_TEST(unwritten_parts_are_told)
{
	tree_write(RESERVE, "8192\n");
	ck_assert_int_eq(ftruncate(image, SIZE * 2), 0);
	assert_prepared(false);
	ck_assert_msg(log_capture_has(LOG_LEVEL_WARNING, ": 1024 of 2048 KiB were never written"),
		      "%s", log_capture_text(LOG_LEVEL_WARNING, 0));
}
END_TEST

START_TEST(unwritten_parts_that_the_device_has_not_do_not_count)
{
	tree_write(RESERVE, "8192\n");
	ck_assert_int_eq(ftruncate(image, SIZE * 2), 0);
	options.sizelimit = SIZE;
	assert_prepared(false);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 0);
	options.offset = SIZE;
	assert_prepared(false);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, ": 1024 of 1024 KiB were never written"));
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "recorded",
		 .begin_once = tree_new,
		 .end_once = tree_free,
		 .begin = begin,
		 .end = end},
		{.test = small_reserve_is_refused_with_the_way_out},
		{.test = force_only_warns_of_a_small_reserve},
		{.test = raise_raises_a_small_reserve},
		{.test = large_reserve_stays},
		{.test = uri_needs_no_reserve_but_may_raise_it},
		{.test = without_swap_nothing_is_looked_at},
		{.test = unwritten_parts_are_told},
		{.test = unwritten_parts_that_the_device_has_not_do_not_count},
		{0},
	};

	return suite_run("swap_space", cases);
}
