/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening an image: the facts that are found, and the messages to the user.
 */
#include "engine/image/image.h"
#include "engine/image/image_status.h"

#include "engine/backend/choice.h"
#include "engine/context/ioctx.h"
#include "engine/context/pool.h"
#include "engine/io/image_state.h"
#include "engine/io/io.h"

#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/scratch_file.h"

#include "common/cleanup.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1u << 20)

static int file;
static char path[SCRATCH_PATH];
static struct image_config config;
static struct image *image;
static char *error;

static void
begin(void)
{
	log_capture_begin();
	file = scratch_file(MIB);
	scratch_path(file, path);
	ck_assert_int_eq(options_init(image_option_rows, &config), 0);
	image = NULL;
}

static void
end(void)
{
	image_close(image);
	free(error);
	close(file);
	log_capture_end();
}

/* Fails with a text that holds `hint`, or succeeds where that is NULL. */
static void
open_image(unsigned int flags, int result, const char *hint)
{
	int r;

	image_close(image);
	image = NULL;
	free(error);
	r = image_open(AT_FDCWD, path, flags, &config, &image, &error);
	ck_assert_msg(r == result, "%d: %s", r, error);
	if (!hint) {
		ck_assert_ptr_null(error);
		return;
	}
	ck_assert_msg(error && strncmp(error, path, strlen(path)) == 0 && strstr(error, hint), "%s",
		      error);
	ck_assert_ptr_null(image);
}

START_TEST(image_is_as_long_as_its_file)
{
	open_image(0, 0, NULL);
	ck_assert_uint_eq(image_size(image), MIB);
	ck_assert(image_writable(image));
	ck_assert(image_has_holes(image));
	ck_assert(image_discards(image));
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 0);
}
END_TEST

START_TEST(read_only_image_is_not_writable)
{
	open_image(BACKING_READ_ONLY, 0, NULL);
	ck_assert(!image_writable(image));
}
END_TEST

START_TEST(window_is_cut_to_whole_sectors_with_a_warning)
{
	config.direct_io = TRISTATE_OFF;
	config.offset = 512;
	config.sizelimit = 10000;
	config.sector_size = 512;
	open_image(0, 0, NULL);
	ck_assert_uint_eq(image_size(image), 9728);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 1);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING,
				  "sizelimit=10000 is no multiple of the sector size, 512 bytes"));
	config.sector_size = 4096;
	open_image(0, 0, NULL);
	ck_assert_uint_eq(image_size(image), 8192);
	ck_assert_uint_eq(image->sector_size, 4096);
}
END_TEST

START_TEST(file_with_an_odd_size_is_served_whole)
{
	char *CLEANUP_FREE summary = NULL;
	bool degraded;

	ck_assert_int_eq(ftruncate(file, MIB + 77), 0);
	open_image(0, 0, NULL);
	ck_assert_uint_eq(image_size(image), MIB + 77);
	ck_assert_uint_eq(image->sector_size, 1);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 0);
	ck_assert(image_direct(image) == (image->backing.direct_fd >= 0));
	summary = image_summary(image, &degraded);
	ck_assert_ptr_nonnull(strstr(summary, "sector size 1 (the size is no multiple of 512)"));
	config.sizelimit = 1000;
	open_image(0, 0, NULL);
	ck_assert_uint_eq(image_size(image), 1000);
	/* The user has given a sector size. */
	config.sector_size = 512;
	open_image(0, 0, NULL);
	ck_assert_uint_eq(image_size(image), 512);
	config.sizelimit = 0;
	config.direct_io = TRISTATE_OFF;
	open_image(0, 0, NULL);
	ck_assert_uint_eq(image_size(image), MIB);
}
END_TEST

START_TEST(offset_behind_the_end_is_refused)
{
	config.offset = MIB + 1;
	open_image(0, -EINVAL, "offset=1048577 is past the end of the file");
}
END_TEST

START_TEST(missing_file_is_refused)
{
	strcpy(path, "/nonexistent/disk.img");
	open_image(0, -ENOENT, "No such file or directory");
}
END_TEST

START_TEST(image_in_another_format_is_warned_about)
{
	ck_assert_int_eq(pwrite(file, "QFI\xfb\0\0\0\3", 8, 512), 8);
	open_image(0, 0, NULL);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING),
			  0); /* the odd bytes are not at the start */
	config.offset = 512;
	open_image(0, 0, NULL);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 1);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING,
				  "looks like a qcow2 image, but is served as raw bytes"));
}
END_TEST

START_TEST(direct_io_off_uses_the_page_cache_and_says_why)
{
	config.direct_io = TRISTATE_OFF;
	open_image(0, 0, NULL);
	ck_assert(!image_direct(image));
	ck_assert_uint_eq(image->sector_size, 512);
	ck_assert_str_eq(image->direct_reason, "direct-io=off");
	/* But for other servers' writes, clients may change parts of sectors. */
	ck_assert_uint_eq(image_min_block(image), 1);
	config.lock = LOCK_SHARED;
	open_image(0, 0, NULL);
	ck_assert_uint_eq(image_min_block(image), 512);
}
END_TEST

static const struct {
	unsigned int direct_io, page_cache;
	bool odd_offset; /* direct I/O is not possible */
	const char *page_cache_status, *warning;
} choices[] = {
	{TRISTATE_OFF, PAGE_CACHE_AUTO, false, "keep", NULL},
	{TRISTATE_OFF, PAGE_CACHE_KEEP, false, "keep", NULL},
	{TRISTATE_OFF, PAGE_CACHE_DROP, false, "drop", NULL},
	{TRISTATE_AUTO, PAGE_CACHE_AUTO, true, "drop", NULL},
	{TRISTATE_AUTO, PAGE_CACHE_KEEP, true, "keep", NULL},
	{TRISTATE_AUTO, PAGE_CACHE_DROP, true, "drop", NULL},
	{TRISTATE_AUTO, PAGE_CACHE_AUTO, false, "keep", NULL},
	{TRISTATE_AUTO, PAGE_CACHE_DROP, false, "drop", NULL},
	{TRISTATE_ON, PAGE_CACHE_AUTO, false, "keep", NULL},
	{TRISTATE_ON, PAGE_CACHE_DROP, false, "drop",
	 "page-cache=drop has no effect with direct-io=on"},
	{TRISTATE_ON, PAGE_CACHE_KEEP, false, "keep",
	 "page-cache=keep has no effect with direct-io=on"},
};

START_TEST(page_cache_is_kept_or_dropped_as_was_chosen)
{
	struct image_status status;

	config.direct_io = choices[_i].direct_io;
	config.page_cache = choices[_i].page_cache;
	config.offset = choices[_i].odd_offset ? 100 : 0;
	config.sizelimit = 4096;
	open_image(0, 0, NULL);
	image_status(image, &status);
	ck_assert_str_eq(status.page_cache, choices[_i].page_cache_status);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), choices[_i].warning != NULL);
	if (choices[_i].warning)
		ck_assert(log_capture_has(LOG_LEVEL_WARNING, choices[_i].warning));
	/* What a client has fetched into the page cache stays only where pages are kept. */
	ck_assert(image_fills_cache(image) ==
		  (!image_direct(image) && strcmp(status.page_cache, "keep") == 0));
}
END_TEST

START_TEST(page_cache_of_an_image_in_memory_is_kept_or_refused)
{
	struct image_status status;

	close(file);
	file = scratch_memory_file(MIB);
	scratch_path(file, path);
	config.direct_io = TRISTATE_OFF;
	config.page_cache = PAGE_CACHE_DROP;
	open_image(
		0, -EOPNOTSUPP,
		"page-cache=drop is not possible: the image is in memory; page-cache=auto or keep");
	config.direct_io = TRISTATE_AUTO;
	config.page_cache = PAGE_CACHE_AUTO;
	open_image(0, 0, NULL);
	image_status(image, &status);
	ck_assert_str_eq(status.page_cache, "keep");
}
END_TEST

START_TEST(direct_io_is_used_where_it_is_possible)
{
	open_image(0, 0, NULL);
	ck_assert(image_direct(image));
	ck_assert_str_eq(image->direct_reason, "");
	ck_assert_uint_ge(image->sector_size, image->backing.direct_sector);
}
END_TEST

START_TEST(offset_that_direct_io_cannot_have_turns_it_off_or_is_refused)
{
	config.offset = 100;
	open_image(0, 0, NULL);
	ck_assert(!image_direct(image));
	ck_assert_ptr_nonnull(strstr(image->direct_reason, "offset=100 is not a multiple of"));
	config.direct_io = TRISTATE_ON;
	open_image(0, -EINVAL, "direct-io=on is not possible: offset=100 is not a multiple of");
}
END_TEST

START_TEST(file_system_without_direct_io_turns_it_off_or_is_refused)
{
	strcpy(path, "/proc/version");
	open_image(BACKING_READ_ONLY, 0, NULL);
	ck_assert(!image_direct(image));
	ck_assert_str_eq(image->direct_reason, "the file system does not support it");
	config.direct_io = TRISTATE_ON;
	open_image(BACKING_READ_ONLY, -EINVAL,
		   "direct-io=on is not possible: the file system does not support it");
}
END_TEST

/* If only sectors of 512 bytes divide the size, larger ones must not cut off the last bytes. */
START_TEST(odd_number_of_sectors_is_kept)
{
	ck_assert_int_eq(ftruncate(file, 512 * 33), 0);
	open_image(0, 0, NULL);
	ck_assert_uint_eq(image_size(image), 512 * 33);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 0);
}
END_TEST

START_TEST(discard_off_is_remembered)
{
	config.discard = TRISTATE_OFF;
	open_image(0, 0, NULL);
	ck_assert(!image_discards(image));
}
END_TEST

START_TEST(engine_that_was_asked_for_is_used)
{
	config.engine = ENGINE_THREADS;
	open_image(0, 0, NULL);
	ck_assert_ptr_eq(image->backend, &backend_calls);
	config.poll = TRISTATE_ON;
	open_image(0, -EOPNOTSUPP, "poll=on is not possible: it needs the io_uring engine");
}
END_TEST

START_TEST(two_images_of_one_file_are_known_for_it)
{
	struct image *first, *other = NULL;
	int other_file = scratch_file(512);
	char other_path[SCRATCH_PATH], *other_error;

	open_image(0, 0, NULL);
	first = image;
	image = NULL;
	open_image(BACKING_READ_ONLY, 0, NULL);
	ck_assert(image_same(first, image));
	ck_assert_int_eq(image_open(AT_FDCWD, scratch_path(other_file, other_path), 0, &config,
				    &other, &other_error),
			 0);
	ck_assert(!image_same(first, other));
	image_close(first);
	image_close(other);
	close(other_file);
}
END_TEST

START_TEST(images_of_one_file_share_its_ranges_as_long_as_one_is_open)
{
	struct image *first, *other = NULL;
	int other_file = scratch_file(512);
	char other_path[SCRATCH_PATH], *other_error;
	struct range range = {.start = 0, .end = 512}, same = range;

	open_image(0, 0, NULL);
	first = image;
	image = NULL;
	config.offset = 512;
	open_image(0, 0, NULL);
	config.offset = 0;
	ck_assert_ptr_eq(first->ranges, image->ranges);
	ck_assert_int_eq(image_open(AT_FDCWD, scratch_path(other_file, other_path), 0, &config,
				    &other, &other_error),
			 0);
	ck_assert_ptr_ne(first->ranges, other->ranges);
	ck_assert(range_begin(first->ranges, &range, NULL));
	ck_assert(range_begin(other->ranges, &same, NULL));
	range_end(other->ranges, &same);
	image_close(other);
	range_end(first->ranges, &range);
	image_close(first);
	ck_assert(range_begin(image->ranges, &range, NULL));
	range_end(image->ranges, &range);
	close(other_file);
}
END_TEST

static int
flush(void)
{
	struct io io = {.op = IO_FLUSH};
	struct ioctx *ctx;
	int r;

	ck_assert_int_eq(ioctx_new(image, &ctx), 0);
	r = ioctx_execute(ctx, &io);
	ioctx_free(ctx);
	return r;
}

/* The image's clients have left, or its export was removed, and the file is opened again. */
START_TEST(lost_write_back_outlives_the_image)
{
	int other_file = scratch_file(MIB);
	char first_path[SCRATCH_PATH];

	open_image(0, 0, NULL);
	ck_assert_int_eq(flush(), 0);
	atomic_store(&image->shared->sync_failure, -EIO);
	ck_assert_int_eq(flush(), -EIO);
	for (unsigned int i = 0; i < 2; i++) {
		open_image(0, 0, NULL);
		ck_assert_int_eq(flush(), -EIO);
		ck_assert(log_capture_has(LOG_LEVEL_WARNING, "an earlier write-back failed"));
	}
	memcpy(first_path, path, sizeof(path));
	scratch_path(other_file, path);
	open_image(0, 0, NULL);
	ck_assert_int_eq(flush(), 0);
	memcpy(path, first_path, sizeof(path));
	close(other_file);
}
END_TEST

START_TEST(configuration_is_copied)
{
	config.depth = 3;
	open_image(0, 0, NULL);
	config.depth = 7;
	ck_assert_uint_eq(image->config.depth, 3);
}
END_TEST

/* Threads and rings do not survive a fork. */
START_TEST(no_context_is_made_before_it_is_needed)
{
	struct ioctx *ctx;

	open_image(0, 0, NULL);
	ck_assert_uint_eq(image->pool->count, 0);
	ctx = pool_take(image);
	ck_assert_ptr_nonnull(ctx);
	ck_assert_uint_eq(image->pool->count, 1);
	pool_give(image, ctx);
}
END_TEST

START_TEST(cache_reads_ahead_into_the_page_cache_and_does_nothing_without_it)
{
	int pipe_fds[2], saved;

	config.direct_io = TRISTATE_OFF;
	open_image(0, 0, NULL);
	ck_assert_int_eq(image_cache(image, 0, 4096), 0);
	ck_assert_int_eq(image_cache(image, MIB - 1, 1), 0);

	/* A pipe refuses the advice, so the error shows that the advice was given. */
	ck_assert_int_eq(pipe(pipe_fds), 0);
	saved = image->backing.fd;
	image->backing.fd = pipe_fds[0];
	ck_assert_int_eq(image_cache(image, 0, 4096), -ESPIPE);
	atomic_store(&image->direct, true);
	ck_assert_int_eq(image_cache(image, 0, 4096), 0);
	image->backing.fd = saved;
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}
END_TEST

START_TEST(close_of_nothing_is_fine)
{
	image_close(NULL);
}
END_TEST

START_TEST(failures_are_logged_with_their_place_until_there_are_too_many)
{
	const struct io io = {.op = IO_ZERO, .offset = 8192, .length = 4096},
			flush = {.op = IO_FLUSH};
	char expected[SCRATCH_PATH + 128];

	open_image(0, 0, NULL);
	io_log_failure(image->backing.path, &io, -EIO, NULL);
	io_log_failure(image->backing.path, &flush, -ENOSPC, "why");
	snprintf(expected, sizeof(expected),
		 "%s: zero of 4096 bytes at offset 8192 failed: Input/output error", path);
	ck_assert_str_eq(log_capture_text(LOG_LEVEL_ERROR, 0), expected);
	snprintf(expected, sizeof(expected), "%s: flush failed: No space left on device: why",
		 path);
	ck_assert_str_eq(log_capture_text(LOG_LEVEL_ERROR, 1), expected);
	for (unsigned int i = 0; i < 100; i++)
		io_log_failure(image->backing.path, &io, -EIO, NULL);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_ERROR), 10);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "facts", .begin = begin, .end = end},
		{.test = image_is_as_long_as_its_file},
		{.test = read_only_image_is_not_writable},
		{.test = window_is_cut_to_whole_sectors_with_a_warning},
		{.test = offset_behind_the_end_is_refused},
		{.test = file_with_an_odd_size_is_served_whole},
		{.test = missing_file_is_refused},
		{.test = image_in_another_format_is_warned_about},
		{.test = odd_number_of_sectors_is_kept},
		{.test = two_images_of_one_file_are_known_for_it},
		{.test = images_of_one_file_share_its_ranges_as_long_as_one_is_open},
		{.test = lost_write_back_outlives_the_image},
		{.name = "direct", .begin = begin, .end = end},
		{.test = direct_io_off_uses_the_page_cache_and_says_why},
		{.test = page_cache_is_kept_or_dropped_as_was_chosen,
		 .last = sizeof(choices) / sizeof(choices[0]),
		 .reason = scratch_no_direct_io()},
		{.test = page_cache_of_an_image_in_memory_is_kept_or_refused},
		{.test = direct_io_is_used_where_it_is_possible, .reason = scratch_no_direct_io()},
		{.test = offset_that_direct_io_cannot_have_turns_it_off_or_is_refused,
		 .reason = scratch_no_direct_io()},
		{.test = file_system_without_direct_io_turns_it_off_or_is_refused},
		{.name = "use", .begin = begin, .end = end},
		{.test = discard_off_is_remembered},
		{.test = engine_that_was_asked_for_is_used},
		{.test = configuration_is_copied},
		{.test = no_context_is_made_before_it_is_needed},
		{.test = cache_reads_ahead_into_the_page_cache_and_does_nothing_without_it},
		{.test = close_of_nothing_is_fine},
		{.test = failures_are_logged_with_their_place_until_there_are_too_many},
		{0},
	};

	return suite_run("image", cases);
}
