/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When direct I/O is possible, and in which blocks.
 */
#include "engine/backing/direct.h"

#include "engine/backing/file/alignment.h"

#include "tests/lib/suite.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* The loop driver's rule (lo_can_use_dio()): the file can do it, sectors are no smaller than its
 * blocks, and the offset is a multiple of them. */
struct rule_row {
	unsigned int align;
	uint64_t offset, size;
	unsigned int sector_size;
	const char *reason; /* NULL: possible */
};

static const struct rule_row rule_rows[] = {
	{512, 0, 0, 512, NULL},
	{512, 512, 1024, 512, NULL},
	{512, 0, 1 << 20, 4096, NULL},
	{4096, 4096, 8192, 4096, NULL},
	{4096, 0, 0, 512, "sector-size=512 is smaller than the 4096-byte blocks that it needs"},
	{4096, 0, 0, 2048, "sector-size=2048 is smaller than the 4096-byte blocks that it needs"},
	{512, 1, 0, 512, "offset=1 is not a multiple of the 512-byte blocks that it needs"},
	{512, 1023, 0, 4096, "offset=1023 is not a multiple of the 512-byte blocks that it needs"},
	{4096, 512, 0, 4096, "offset=512 is not a multiple of the 4096-byte blocks that it needs"},
	{512, 512, 1000, 1, NULL},
	{4096, 4096, 1, 1, NULL},
	{4096, 512, 0, 1, "offset=512 is not a multiple of the 4096-byte blocks that it needs"},
	{4096, 0, 4608, 4096,
	 "the size 4608 is not a multiple of the 4096-byte blocks that it needs"},
};

START_TEST(rule_is_the_loop_drivers)
{
	const struct rule_row *row = &rule_rows[_i];
	const struct backing backing = {
		.direct_fd = 0, .direct_align = row->align, .direct_sector = row->align};
	char reason[REASON_MAX] = "";

	ck_assert_int_eq(
		direct_possible(&backing, row->offset, row->size, row->sector_size, reason),
		row->reason ? -EINVAL : 0);
	ck_assert_str_eq(reason, row->reason ? row->reason : "");
}
END_TEST

START_TEST(file_without_extents_keeps_the_sectors_that_the_kernel_takes)
{
	const struct backing backing = {.direct_fd = 0, .direct_align = 4096, .direct_sector = 512};
	char reason[REASON_MAX] = "";

	ck_assert_int_eq(direct_possible(&backing, 4096, 8192, 512, reason), 0);
	ck_assert_int_eq(direct_possible(&backing, 4096, 8192 + 512, 512, reason), 0);
	ck_assert_int_eq(direct_possible(&backing, 512, 8192, 512, reason), -EINVAL);
	ck_assert_str_eq(reason,
			 "offset=512 is not a multiple of the 4096-byte blocks that it needs");
}
END_TEST

START_TEST(backing_without_direct_io_gives_its_own_reason)
{
	const struct backing backing = {.direct_fd = -1,
					.direct_align = 512,
					.direct_reason = "the file system does not support it"};
	char reason[REASON_MAX] = "";

	ck_assert_int_eq(direct_possible(&backing, 0, 0, 4096, reason), -EINVAL);
	ck_assert_str_eq(reason, "the file system does not support it");
}
END_TEST

START_TEST(block_of_the_device_is_known_where_there_is_one)
{
	const struct backing device = {.block_device = true, .block_size = 2048};
	const struct backing none = {.block_size = 1,
				     .direct_align = 4096}; /* as on btrfs, overlay, NFS */

	ck_assert_uint_eq(backing_device_block(&device), 2048);
	ck_assert_uint_eq(backing_device_block(&none), 0);
}
END_TEST

START_TEST(part_of_a_device_that_ends_inside_of_a_block_has_no_direct_io)
{
	const struct backing backing = {.direct_fd = 0,
					.direct_align = 512,
					.direct_sector = 512,
					.block_size = 512,
					.block_device = true};
	char reason[REASON_MAX] = "";

	ck_assert_int_eq(direct_possible(&backing, 0, 1024, 1, reason), 0);
	ck_assert_int_eq(direct_possible(&backing, 0, 1000, 1, reason), -EINVAL);
	ck_assert_str_eq(reason,
			 "the size 1000 is not a multiple of the 512-byte blocks that it needs");
}
END_TEST

START_TEST(direct_io_ends_before_a_page_that_it_would_make_longer)
{
	struct backing backing = {.direct_fd = 0, .direct_align = 512, .cache_block = 4096};

	ck_assert_uint_eq(direct_end(&backing, 8192), UINT64_MAX);
	ck_assert_uint_eq(direct_end(&backing, 8192 + 512), UINT64_MAX);
	ck_assert_uint_eq(direct_end(&backing, 8192 + 1), 8192);
	ck_assert_uint_eq(direct_end(&backing, 8192 - 1), 4096);
	ck_assert_uint_eq(direct_end(&backing, 100), 0);
	backing.direct_align = 16384;
	ck_assert_uint_eq(direct_end(&backing, 65536 - 512), 49152);
	backing.cache_block = 65536;
	ck_assert_uint_eq(direct_end(&backing, 65536 - 512), 0);
	backing.direct_fd = -1;
	ck_assert_uint_eq(direct_end(&backing, 8193), UINT64_MAX);
}
END_TEST

/* A new direct descriptor of a scratch file. */
static int
open_direct(int file)
{
	char path[SCRATCH_PATH];
	int fd = open(scratch_path(file, path), O_RDWR | O_DIRECT | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

START_TEST(alignment_that_was_learnt_works)
{
	int file = scratch_file(65536), fd = open_direct(file);
	struct alignment alignment;
	char reason[REASON_MAX];
	char *memory = aligned_alloc(65536, 131072);

	scratch_fill(file, 0, 65536);
	ck_assert_int_eq(alignment_learn(fd, 0, &alignment, reason, sizeof(reason)), 0);
	ck_assert_uint_ge(alignment.offset, 512);
	ck_assert_uint_eq(alignment.offset & (alignment.offset - 1), 0);
	ck_assert_uint_ne(alignment.memory, 0);
	ck_assert_uint_eq(alignment.memory & (alignment.memory - 1), 0);
	ck_assert_int_eq(pread(fd, memory + alignment.memory, alignment.offset, alignment.offset),
			 alignment.offset);
	free(memory);
	close(fd);
	close(file);
}
END_TEST

START_TEST(file_smaller_than_a_block_is_no_obstacle)
{
	int file = scratch_file(3), fd = open_direct(file);
	struct alignment alignment;
	char reason[REASON_MAX];

	ck_assert_int_eq(alignment_learn(fd, 0, &alignment, reason, sizeof(reason)), 0);
	close(fd);
	close(file);
}
END_TEST

START_TEST(descriptor_that_cannot_be_read_is_refused_with_the_reason)
{
	struct alignment alignment;
	char reason[REASON_MAX];
	int pipe_fds[2];

	ck_assert_int_eq(pipe(pipe_fds), 0);
	ck_assert_int_eq(alignment_learn(pipe_fds[0], 0, &alignment, reason, sizeof(reason)),
			 -ESPIPE);
	ck_assert_str_eq(reason, "a direct read of the first 512 bytes failed: Illegal seek");
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "rule"},
		{.test = rule_is_the_loop_drivers,
		 .last = sizeof(rule_rows) / sizeof(rule_rows[0])},
		{.test = file_without_extents_keeps_the_sectors_that_the_kernel_takes},
		{.test = backing_without_direct_io_gives_its_own_reason},
		{.test = block_of_the_device_is_known_where_there_is_one},
		{.test = part_of_a_device_that_ends_inside_of_a_block_has_no_direct_io},
		{.test = direct_io_ends_before_a_page_that_it_would_make_longer},
		{.name = "learn"},
		{.test = alignment_that_was_learnt_works, .reason = scratch_no_direct_io()},
		{.test = file_smaller_than_a_block_is_no_obstacle,
		 .reason = scratch_no_direct_io()},
		{.test = descriptor_that_cannot_be_read_is_refused_with_the_reason},
		{0},
	};

	return suite_run("direct", cases);
}
