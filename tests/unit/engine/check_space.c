/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Discarding and zeroing: the way that is tried first, and the next one when the kernel lacks it.
 */
#include "engine/io/space.h"

#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <errno.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>

#define MIB   (1u << 20)
#define PUNCH (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)
#define ZERO  (FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE)

static struct fake_image disk;

static void
open_with(const struct fake_facts *facts)
{
	log_capture_begin();
	fake_image_open(&disk, facts);
}

static void
open_file(void)
{
	open_with(&(struct fake_facts){.align = 512});
}

/* Blocks of 4096 bytes, and a window that starts at one. */
static void
open_device(void)
{
	open_with(&(struct fake_facts){.align = 4096, .block_size = 4096, .offset = 8192});
}

static void
close_disk(void)
{
	fake_image_compare(&disk);
	fake_image_close(&disk);
	log_capture_end();
}

/* The way that is tried after so many others have failed. */
static int
mode_of(enum io_op op, unsigned int flags, unsigned int attempt)
{
	const struct io io = {.op = op, .flags = flags};

	return space_mode(disk.image, &io, &attempt);
}

static int
zero(unsigned int flags, uint64_t offset, uint64_t length)
{
	int r = test_io_execute(disk.ctx, IO_ZERO, flags, offset, length, NULL);

	if (r == 0)
		memset(fake_image_at(&disk, offset), 0, length);
	return r;
}

static void
assert_chunks(unsigned int allocates, unsigned int writes)
{
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_ALLOCATE), allocates);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_WRITE), writes);
}

START_TEST(file_is_punched_for_discard_and_zeroed_in_place_unless_holes_will_do)
{
	open_file();
	ck_assert_int_eq(mode_of(IO_DISCARD, 0, 0), PUNCH);
	ck_assert_int_eq(mode_of(IO_DISCARD, 0, 1), -EOPNOTSUPP);
	ck_assert_int_eq(mode_of(IO_ZERO, 0, 0), ZERO);
	ck_assert_int_eq(mode_of(IO_ZERO, 0, 1), -EOPNOTSUPP);
	ck_assert_int_eq(mode_of(IO_ZERO, IO_MAY_UNMAP, 0), PUNCH);
	ck_assert_int_eq(mode_of(IO_ZERO, IO_MAY_UNMAP, 1), ZERO);
	ck_assert_int_eq(mode_of(IO_ZERO, IO_MAY_UNMAP, 2), -EOPNOTSUPP);
	ck_assert_int_eq(mode_of(IO_ZERO, IO_FAST, 0), ZERO);
	close_disk();
}
END_TEST

START_TEST(device_is_zeroed_fast_only_by_its_own_command)
{
	open_device();
	ck_assert_int_eq(mode_of(IO_DISCARD, 0, 0), PUNCH);
	ck_assert_int_eq(mode_of(IO_ZERO, 0, 0), ZERO);
	ck_assert_int_eq(mode_of(IO_ZERO, IO_MAY_UNMAP, 0), PUNCH);
	ck_assert_int_eq(mode_of(IO_ZERO, IO_FAST | IO_MAY_UNMAP, 0), PUNCH);
	ck_assert_int_eq(mode_of(IO_ZERO, IO_FAST | IO_MAY_UNMAP, 1), -EOPNOTSUPP);
	ck_assert_int_eq(mode_of(IO_ZERO, IO_FAST, 0), -EOPNOTSUPP);
	close_disk();
}
END_TEST

START_TEST(discard_off_gives_back_no_space)
{
	open_with(&(struct fake_facts){.align = 512, .no_discard = true});
	ck_assert_int_eq(mode_of(IO_DISCARD, 0, 0), -EOPNOTSUPP);
	ck_assert_int_eq(mode_of(IO_ZERO, IO_MAY_UNMAP, 0), ZERO);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_DISCARD, 0, 0, MIB, NULL), 0);
	ck_assert_uint_eq(disk.fake.event_count, 0);
	ck_assert_int_eq(zero(IO_MAY_UNMAP, 0, 4096), 0);
	ck_assert_int_eq(disk.fake.events[0].mode, ZERO);
	close_disk();
}
END_TEST

START_TEST(zero_falls_back_from_punching_to_zeroing_in_place_to_writing)
{
	open_file();
	fake_fault(&disk.fake, CHUNK_ALLOCATE, 0, 1, -EOPNOTSUPP);
	fake_fault(&disk.fake, CHUNK_ALLOCATE, 0, 1, -ENOSYS);
	ck_assert_int_eq(zero(IO_MAY_UNMAP, 100, 300000), 0);
	ck_assert_int_eq(disk.fake.events[0].mode, PUNCH);
	ck_assert_int_eq(disk.fake.events[1].mode, ZERO);
	for (unsigned int i = 0; i < 2; i++) {
		ck_assert_uint_eq(disk.fake.events[i].offset, 100);
		ck_assert_uint_eq(disk.fake.events[i].length, 300000);
	}
	ck_assert_uint_ge(fake_count(&disk.fake, CHUNK_WRITE), 3);
	close_disk();
}
END_TEST

START_TEST(what_is_not_supported_is_remembered_and_said_once)
{
	open_file();
	fake_fault(&disk.fake, CHUNK_ALLOCATE, 0, 2, -EOPNOTSUPP);
	for (unsigned int i = 0; i < 3; i++)
		ck_assert_int_eq(zero(IO_MAY_UNMAP, 4096, 4096), 0);
	assert_chunks(2, 3);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_DISCARD, 0, 0, 4096, NULL), 0);
	assert_chunks(2, 3);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 2);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "disk.img: no holes can be made here"));
	ck_assert(log_capture_has(LOG_LEVEL_WARNING,
				  "disk.img: ranges can't be zeroed in place here"));
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_ERROR), 0);
	close_disk();
}
END_TEST

START_TEST(zeroes_that_find_out_together_are_all_zeroed)
{
	struct test_io ops[4];

	open_file();
	disk.fake.held = 1u << CHUNK_ALLOCATE;
	fake_fault(&disk.fake, CHUNK_ALLOCATE, 0, 4, -EOPNOTSUPP);
	for (unsigned int i = 0; i < 4; i++)
		test_io_submit(disk.ctx, &ops[i], IO_ZERO, 0, i * 8192, 4096, NULL);
	ioctx_run(disk.ctx, false);
	ck_assert_uint_eq(fake_in_flight(&disk.fake, 0), 4);
	fake_release_all(&disk.fake);
	for (unsigned int i = 0; i < 4; i++) {
		ck_assert_int_eq(test_io_finish(disk.ctx, &ops[i]), 0);
		memset(disk.model + i * 8192, 0, 4096);
	}
	assert_chunks(4, 4);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 1);
	close_disk();
}
END_TEST

START_TEST(discard_that_is_not_supported_is_a_success_that_changes_nothing)
{
	open_file();
	fake_fault(&disk.fake, CHUNK_ALLOCATE, 0, 1, -EOPNOTSUPP);
	for (unsigned int i = 0; i < 3; i++)
		ck_assert_int_eq(test_io_execute(disk.ctx, IO_DISCARD, 0, 0, MIB, NULL), 0);
	assert_chunks(1, 0);
	ck_assert_uint_eq(counter_read(&disk.ctx->counters, COUNTER_DISCARDS), 3);
	close_disk();
}
END_TEST

START_TEST(other_errors_are_no_reason_to_fall_back)
{
	open_file();
	fake_fault(&disk.fake, CHUNK_ALLOCATE, 0, 1, -ENOSPC);
	ck_assert_int_eq(zero(0, 0, 4096), -ENOSPC);
	fake_fault(&disk.fake, CHUNK_ALLOCATE, 0, 1, -EIO);
	ck_assert_int_eq(zero(0, 0, 4096), -EIO);
	ck_assert_int_eq(zero(0, 0, 4096), 0);
	assert_chunks(3, 0);
	close_disk();
}
END_TEST

START_TEST(fast_zero_fails_rather_than_write)
{
	open_file();
	fake_fault(&disk.fake, CHUNK_ALLOCATE, 0, 2, -EOPNOTSUPP);
	ck_assert_int_eq(zero(IO_FAST | IO_MAY_UNMAP, 0, MIB), -EOPNOTSUPP);
	ck_assert_int_eq(zero(IO_FAST, 0, 512), -EOPNOTSUPP);
	assert_chunks(2, 0);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_ERROR), 0);
	close_disk();
}
END_TEST

START_TEST(fast_zero_that_the_kernel_does_is_fast)
{
	open_file();
	ck_assert_int_eq(zero(IO_FAST, 3, 5000), 0);
	ck_assert_int_eq(zero(IO_FAST | IO_MAY_UNMAP | IO_FUA, 30000, 5000), 0);
	assert_chunks(2, 0);
	close_disk();
}
END_TEST

START_TEST(fast_zero_of_a_device_fails_at_unaligned_edges)
{
	open_device();
	ck_assert_int_eq(zero(IO_FAST | IO_MAY_UNMAP, 512, 8192), -EOPNOTSUPP);
	ck_assert_int_eq(zero(IO_FAST | IO_MAY_UNMAP, 0, 512), -EOPNOTSUPP);
	assert_chunks(0, 0);
	ck_assert_int_eq(zero(IO_FAST | IO_MAY_UNMAP, 4096, 8192), 0);
	assert_chunks(1, 0);
	close_disk();
}
END_TEST

START_TEST(zero_of_a_device_writes_its_unaligned_edges_and_keeps_neighbours)
{
	open_device();
	ck_assert_int_eq(zero(0, 1000, 20000), 0); /* blocks 4096 to 20480 are whole */
	assert_chunks(1, 2);
	for (unsigned int i = 0; i < disk.fake.event_count; i++) {
		if (disk.fake.events[i].op != CHUNK_ALLOCATE)
			continue;
		ck_assert_uint_eq(disk.fake.events[i].offset, 8192 + 4096);
		ck_assert_uint_eq(disk.fake.events[i].length, 16384);
	}
	ck_assert_int_eq(zero(0, 30000, 100), 0); /* inside of one block */
	assert_chunks(1, 3);
	close_disk();
}
END_TEST

START_TEST(discard_of_a_device_keeps_to_whole_blocks)
{
	open_device();
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_DISCARD, 0, 1000, 20000, NULL), 0);
	ck_assert_uint_eq(disk.fake.event_count, 1);
	ck_assert_uint_eq(disk.fake.events[0].offset, 8192 + 4096);
	ck_assert_uint_eq(disk.fake.events[0].length, 16384);
	memset(fake_image_at(&disk, 4096), 0, 16384);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_DISCARD, 0, 1, 8000, NULL), 0);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_DISCARD, 0, 4095, 4097, NULL), 0);
	ck_assert_uint_eq(disk.fake.event_count, 2); /* the second of them has one whole block */
	memset(fake_image_at(&disk, 4096), 0, 4096);
	close_disk();
}
END_TEST

/* Blocks are the device's, not the window's. */
START_TEST(blocks_of_a_device_are_counted_from_its_start)
{
	open_with(&(struct fake_facts){.block_size = 4096, .offset = 512});
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_DISCARD, 0, 0, 10000, NULL), 0);
	ck_assert_uint_eq(disk.fake.events[0].offset, 4096);
	ck_assert_uint_eq(disk.fake.events[0].length, 4096);
	memset(disk.model + 4096, 0, 4096);
	ck_assert_int_eq(zero(0, 0, 10000), 0);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_ALLOCATE), 2);
	close_disk();
}
END_TEST

START_TEST(discard_of_a_file_keeps_to_bytes)
{
	open_file();
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_DISCARD, 0, 3, 10, NULL), 0);
	ck_assert_uint_eq(disk.fake.events[0].offset, 3);
	ck_assert_uint_eq(disk.fake.events[0].length, 10);
	memset(disk.model + 3, 0, 10);
	close_disk();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "ways"},
		{.test = file_is_punched_for_discard_and_zeroed_in_place_unless_holes_will_do},
		{.test = device_is_zeroed_fast_only_by_its_own_command},
		{.test = discard_off_gives_back_no_space},
		{.test = discard_of_a_file_keeps_to_bytes},
		{.name = "fallback"},
		{.test = zero_falls_back_from_punching_to_zeroing_in_place_to_writing},
		{.test = what_is_not_supported_is_remembered_and_said_once},
		{.test = zeroes_that_find_out_together_are_all_zeroed},
		{.test = discard_that_is_not_supported_is_a_success_that_changes_nothing},
		{.test = other_errors_are_no_reason_to_fall_back},
		{.test = fast_zero_fails_rather_than_write},
		{.test = fast_zero_that_the_kernel_does_is_fast},
		{.name = "device"},
		{.test = fast_zero_of_a_device_fails_at_unaligned_edges},
		{.test = zero_of_a_device_writes_its_unaligned_edges_and_keeps_neighbours},
		{.test = discard_of_a_device_keeps_to_whole_blocks},
		{.test = blocks_of_a_device_are_counted_from_its_start},
		{0},
	};

	return suite_run("space", cases);
}
