/* SPDX-License-Identifier: BSD-3-Clause */
/* Ios that an image refuses, and what io_submit() leaves to ioctx_run(). */
#include "engine/io/io.h"

#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1u << 20)

static struct fake_image disk;

static void
open_with(const struct fake_facts *facts)
{
	log_capture_begin();
	fake_image_open(&disk, facts);
}

/* 4 MiB with direct I/O in blocks of 512 bytes. */
static void
open_direct(void)
{
	open_with(&(struct fake_facts){.file_size = 4 * MIB, .align = 512});
}

static void
close_disk(void)
{
	fake_image_compare(&disk);
	fake_image_close(&disk);
	log_capture_end();
}

static void
assert_read(uint64_t offset, uint64_t length, unsigned int misaligned)
{
	unsigned char *buffer = buffer_new(length, misaligned);

	ck_assert_int_eq(test_io_execute(disk.ctx, IO_READ, 0, offset, length, buffer), 0);
	ck_assert_mem_eq(buffer, fake_image_at(&disk, offset), length);
	buffer_free(buffer);
}

START_TEST(operations_have_names)
{
	ck_assert_str_eq(io_op_name(IO_READ), "read");
	ck_assert_str_eq(io_op_name(IO_WRITE), "write");
	ck_assert_str_eq(io_op_name(IO_FLUSH), "flush");
	ck_assert_str_eq(io_op_name(IO_DISCARD), "discard");
	ck_assert_str_eq(io_op_name(IO_ZERO), "zero");
}
END_TEST

struct range_row {
	uint64_t offset, length;
	bool inside;
};

static const struct range_row range_rows[] = {
	{0, MIB, true},
	{MIB - 1, 1, true},
	{MIB, 0, true},
	{0, MIB + 1, false},
	{MIB - 1, 2, false},
	{MIB, 1, false},
	{MIB + 1, 0, false},
	{0, UINT64_MAX, false},
	{1, UINT64_MAX, false},
	{512, UINT64_MAX - 511, false},
	{MIB - 512, UINT64_MAX - MIB + 513, false}, /* the sum is 1 */
	{UINT64_MAX, 0, false},
	{UINT64_MAX, 1, false},
	{UINT64_MAX - 511, 512, false},
	{UINT64_MAX, UINT64_MAX, false},
};

static void
assert_ranges(enum io_op op, int error)
{
	unsigned char *buffer = buffer_new(MIB, 0);

	for (size_t i = 0; i < sizeof(range_rows) / sizeof(range_rows[0]); i++) {
		const struct range_row *row = &range_rows[i];
		unsigned int before = disk.fake.event_count;
		int r;

		memcpy(buffer, fake_image_at(&disk, row->inside ? row->offset : 0),
		       row->inside ? row->length : 0);
		r = test_io_execute(disk.ctx, op, 0, row->offset, row->length, buffer);
		ck_assert_msg(r == (row->inside ? 0 : error), "%s, row %zu: %d", io_op_name(op), i,
			      r);
		ck_assert_msg(row->inside || disk.fake.event_count == before,
			      "row %zu reached the disk", i);
	}
	buffer_free(buffer);
}

/* A window in the middle of the file: its limits count, not the file's. */
static void
open_window(void)
{
	open_with(&(struct fake_facts){.file_size = 3 * MIB,
				       .offset = MIB,
				       .size = MIB,
				       .align = 512,
				       .no_discard = true});
}

START_TEST(read_outside_of_the_image_is_invalid)
{
	open_window();
	assert_ranges(IO_READ, -EINVAL);
	close_disk();
}
END_TEST

START_TEST(discard_outside_of_the_image_is_invalid)
{
	open_window();
	assert_ranges(IO_DISCARD, -EINVAL);
	close_disk();
}
END_TEST

START_TEST(write_outside_of_the_image_finds_no_space)
{
	open_window();
	assert_ranges(IO_WRITE, -ENOSPC);
	close_disk();
}
END_TEST

START_TEST(zero_outside_of_the_image_finds_no_space)
{
	open_window();
	assert_ranges(IO_ZERO, -ENOSPC);
	memset(fake_image_at(&disk, 0), 0, MIB);
	close_disk();
}
END_TEST

START_TEST(refused_request_is_logged_with_its_range_and_reason)
{
	open_direct();
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_READ, 0, 4 * MIB, 512, NULL), -EINVAL);
	ck_assert_str_eq(log_capture_text(LOG_LEVEL_ERROR, 0),
			 "disk.img: read of 512 bytes at offset 4194304 failed: Invalid argument: "
			 "outside the image");
	close_disk();
}
END_TEST

START_TEST(read_only_image_permits_no_change)
{
	char byte = 0;

	open_with(&(struct fake_facts){.align = 512, .read_only = true});
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_WRITE, 0, 0, 1, &byte), -EPERM);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_DISCARD, 0, 0, 512, NULL), -EPERM);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_ZERO, 0, 0, 512, NULL), -EPERM);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_WRITE, 0, 2 * MIB, 1, &byte), -EPERM);
	ck_assert_uint_eq(disk.fake.event_count, 0);
	ck_assert_str_eq(log_capture_text(LOG_LEVEL_ERROR, 0),
			 "disk.img: write of 1 bytes at offset 0 failed: Operation not permitted: "
			 "the image is read-only");
	assert_read(0, 1000, 0);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_FLUSH, 0, 0, 0, NULL), 0);
	close_disk();
}
END_TEST

START_TEST(empty_request_is_done_without_the_disk)
{
	open_direct();
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_READ, 0, 77, 0, NULL), 0);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_WRITE, 0, 77, 0, NULL), 0);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_DISCARD, 0, 77, 0, NULL), 0);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_ZERO, 0, 77, 0, NULL), 0);
	ck_assert_uint_eq(disk.fake.event_count, 0);
	close_disk();
}
END_TEST

START_TEST(submit_itself_neither_completes_nor_touches_the_disk)
{
	unsigned char *buffer = buffer_new(512, 0);
	struct test_io outside, empty, read;

	open_direct();
	test_io_submit(disk.ctx, &outside, IO_READ, 0, 5 * MIB, 512, buffer);
	test_io_submit(disk.ctx, &empty, IO_READ, 0, 0, 0, buffer);
	test_io_submit(disk.ctx, &read, IO_READ, 0, 0, 512, buffer);
	ck_assert_uint_eq(outside.done + empty.done + read.done, 0);
	ck_assert_uint_eq(disk.fake.event_count, 0);
	ck_assert_int_eq(test_io_finish(disk.ctx, &read), 0);
	ck_assert_uint_eq(outside.done, 1);
	ck_assert_uint_eq(empty.done, 1);
	buffer_free(buffer);
	close_disk();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "refused"},
		{.test = operations_have_names},
		{.test = read_outside_of_the_image_is_invalid},
		{.test = discard_outside_of_the_image_is_invalid},
		{.test = write_outside_of_the_image_finds_no_space},
		{.test = zero_outside_of_the_image_finds_no_space},
		{.test = refused_request_is_logged_with_its_range_and_reason},
		{.test = read_only_image_permits_no_change},
		{.test = empty_request_is_done_without_the_disk},
		{.test = submit_itself_neither_completes_nor_touches_the_disk},
		{0},
	};

	return suite_run("io_refused", cases);
}
