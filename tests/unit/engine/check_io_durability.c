/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FUA and flush: acknowledged bytes are durable, and a lost write-back is an error.
 */
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
static unsigned char *bytes; /* 2 MiB to be written, page-aligned */

static void
open_with(const struct fake_facts *facts)
{
	log_capture_begin();
	fake_image_open(&disk, facts);
	bytes = buffer_new(2 * MIB, 0);
	buffer_fill(bytes, 2 * MIB, 2);
}

static void
open_direct(void)
{
	open_with(&(struct fake_facts){.file_size = 4 * MIB, .align = 512});
}

static void
open_buffered(void)
{
	open_with(&(struct fake_facts){.file_size = 4 * MIB, .align = 512, .buffered = true});
}

static void
close_disk(void)
{
	fake_image_compare(&disk);
	buffer_free(bytes);
	fake_image_close(&disk);
	log_capture_end();
}

static int
write_bytes(unsigned int flags, uint64_t offset, uint64_t length)
{
	int r = test_io_execute(disk.ctx, IO_WRITE, flags, offset, length, bytes);

	if (r == 0)
		memcpy(fake_image_at(&disk, offset), bytes, length);
	return r;
}

static int
flush(void)
{
	return test_io_execute(disk.ctx, IO_FLUSH, 0, 0, 0, NULL);
}

static void
assert_chunks(unsigned int writes, unsigned int syncs)
{
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_WRITE), writes);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_SYNC), syncs);
	if (syncs)
		ck_assert_int_eq(disk.fake.events[disk.fake.event_count - 1].op, CHUNK_SYNC);
}

START_TEST(plain_write_syncs_nothing)
{
	open_direct();
	ck_assert_int_eq(write_bytes(0, 0, MIB), 0);
	ck_assert_int_eq(write_bytes(0, MIB, 512), 0);
	assert_chunks(9, 0);
	for (unsigned int i = 0; i < 9; i++)
		ck_assert(!disk.fake.events[i].dsync);
	close_disk();
}
END_TEST

START_TEST(fua_write_of_one_direct_chunk_carries_its_own_sync)
{
	open_direct();
	ck_assert_int_eq(write_bytes(IO_FUA, 512, CHUNK_SIZE), 0);
	assert_chunks(1, 0);
	ck_assert(disk.fake.events[0].dsync);
	close_disk();
}
END_TEST

START_TEST(rest_of_a_short_fua_write_carries_its_own_sync_too)
{
	open_direct();
	fake_fault(&disk.fake, CHUNK_WRITE, 0, 1, 1024);
	ck_assert_int_eq(write_bytes(IO_FUA, 512, 4096), 0);
	assert_chunks(2, 0);
	ck_assert(disk.fake.events[0].dsync && disk.fake.events[1].dsync);
	ck_assert_uint_eq(disk.fake.events[1].offset, 512 + 1024);
	ck_assert_uint_eq(disk.fake.events[1].length, 4096 - 1024);
	close_disk();
}
END_TEST

START_TEST(fua_write_of_several_chunks_ends_with_one_sync)
{
	open_direct();
	ck_assert_int_eq(write_bytes(IO_FUA, 0, 2 * MIB), 0);
	assert_chunks(16, 1);
	for (unsigned int i = 0; i < 16; i++)
		ck_assert(!disk.fake.events[i].dsync);
	close_disk();
}
END_TEST

START_TEST(fua_write_through_the_page_cache_ends_with_a_sync)
{
	open_buffered();
	ck_assert_int_eq(write_bytes(IO_FUA, 77, 1000), 0);
	assert_chunks(1, 1);
	close_disk();
}
END_TEST

START_TEST(fua_write_on_a_backend_without_dsync_ends_with_a_sync)
{
	open_direct();
	disk.fake.backend.dsync = false;
	ck_assert_int_eq(write_bytes(IO_FUA, 0, 512), 0);
	assert_chunks(1, 1);
	ck_assert(!disk.fake.events[0].dsync);
	close_disk();
}
END_TEST

START_TEST(fua_read_modify_write_ends_with_a_sync)
{
	open_direct();
	ck_assert_int_eq(write_bytes(IO_FUA, 3, 7), 0);
	assert_chunks(1, 1);
	close_disk();
}
END_TEST

START_TEST(fua_zero_and_discard_end_with_a_sync)
{
	open_direct();
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_ZERO, IO_FUA, 0, 4096, NULL), 0);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_ALLOCATE), 1);
	assert_chunks(0, 1);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_DISCARD, IO_FUA, 0, 4096, NULL), 0);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_ALLOCATE), 2);
	assert_chunks(0, 2);
	memset(disk.model, 0, 4096);
	close_disk();
}
END_TEST

START_TEST(fua_zero_by_writing_is_durable_too)
{
	open_direct();
	fake_fault(&disk.fake, CHUNK_ALLOCATE, 0, 1, -EOPNOTSUPP);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_ZERO, IO_FUA, 0, 4096, NULL), 0);
	assert_chunks(1, 0);
	ck_assert(disk.fake.events[1].dsync);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_ZERO, IO_FUA, 0, MIB, NULL), 0);
	assert_chunks(9, 1);
	memset(disk.model, 0, MIB);
	close_disk();
}
END_TEST

START_TEST(read_ignores_fua)
{
	unsigned char *buffer = buffer_new(MIB, 0);

	open_direct();
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_READ, IO_FUA, 0, MIB, buffer), 0);
	assert_chunks(0, 0);
	buffer_free(buffer);
	close_disk();
}
END_TEST

START_TEST(sync_begins_when_the_last_write_is_done_and_is_awaited)
{
	struct test_io op;

	open_direct();
	disk.fake.held = 1u << CHUNK_WRITE | 1u << CHUNK_SYNC;
	test_io_submit(disk.ctx, &op, IO_WRITE, IO_FUA, 0, MIB, bytes);
	memcpy(disk.model, bytes, MIB);
	ioctx_run(disk.ctx, false);
	for (unsigned int i = 0; i < 8; i++) {
		ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_SYNC), 0);
		fake_release(&disk.fake, i);
		ioctx_run(disk.ctx, true);
	}
	ioctx_run(disk.ctx, false);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_SYNC), 1);
	ck_assert_uint_eq(op.done, 0);
	fake_release(&disk.fake, 8);
	ck_assert_int_eq(test_io_finish(disk.ctx, &op), 0);
	close_disk();
}
END_TEST

START_TEST(write_that_waits_for_its_sync_bars_nobody)
{
	struct test_io op;

	open_direct();
	disk.fake.held = 1u << CHUNK_SYNC;
	test_io_submit(disk.ctx, &op, IO_WRITE, IO_FUA, 3, 7, bytes);
	memcpy(disk.model + 3, bytes, 7);
	while (fake_count(&disk.fake, CHUNK_SYNC) == 0)
		ioctx_run(disk.ctx, false);
	ck_assert_int_eq(write_bytes(0, 100, 7), 0); /* in the same block */
	ck_assert_uint_eq(op.done, 0);
	fake_release_all(&disk.fake);
	ck_assert_int_eq(test_io_finish(disk.ctx, &op), 0);
	close_disk();
}
END_TEST

START_TEST(failed_write_is_not_synced)
{
	open_direct();
	fake_fault(&disk.fake, CHUNK_WRITE, 15, 1, -EIO);
	ck_assert_int_eq(write_bytes(IO_FUA, 0, 2 * MIB), -EIO);
	assert_chunks(16, 0);
	memcpy(disk.model, bytes, 2 * MIB - CHUNK_SIZE);
	close_disk();
}
END_TEST

START_TEST(failed_sync_fails_the_fua_write)
{
	open_direct();
	fake_fault(&disk.fake, CHUNK_SYNC, 0, 1, -EIO);
	ck_assert_int_eq(write_bytes(IO_FUA, 0, MIB), -EIO);
	ck_assert(log_capture_has(
		LOG_LEVEL_ERROR,
		"disk.img: write of 1048576 bytes at offset 0 failed: Input/output error"));
	memcpy(disk.model, bytes, MIB);
	close_disk();
}
END_TEST

START_TEST(flush_is_one_sync_whatever_range_it_carries)
{
	open_direct();
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_FLUSH, IO_FUA, UINT64_MAX, 12345, NULL), 0);
	assert_chunks(0, 1);
	ck_assert_uint_eq(disk.fake.event_count, 1);
	close_disk();
}
END_TEST

START_TEST(interrupted_sync_is_tried_again)
{
	open_direct();
	fake_fault(&disk.fake, CHUNK_SYNC, 0, 2, -EINTR);
	ck_assert_int_eq(flush(), 0);
	assert_chunks(0, 3);
	close_disk();
}
END_TEST

START_TEST(failed_flush_is_logged)
{
	open_direct();
	fake_fault(&disk.fake, CHUNK_SYNC, 0, 1, -ENOSPC);
	ck_assert_int_eq(flush(), -ENOSPC);
	ck_assert(log_capture_has(LOG_LEVEL_ERROR,
				  "disk.img: flush failed: No space left on device"));
	close_disk();
}
END_TEST

/* Direct writes leave nothing in the page cache that a sync must write back. */
START_TEST(flush_after_a_failed_one_succeeds_on_a_device_with_direct_io)
{
	open_with(&(struct fake_facts){.file_size = 4 * MIB, .align = 512, .block_size = 512});
	fake_fault(&disk.fake, CHUNK_SYNC, 0, 1, -EIO);
	ck_assert_int_eq(flush(), -EIO);
	ck_assert_int_eq(flush(), 0);
	close_disk();
}
END_TEST

START_TEST(failed_flush_of_a_device_whose_direct_io_was_off_once_makes_all_later_ones_fail)
{
	char *error = NULL;

	open_with(&(struct fake_facts){.file_size = 4 * MIB, .align = 512, .block_size = 512});
	ck_assert_int_eq(image_set_direct(disk.image, false, &error), 0);
	ck_assert_int_eq(image_set_direct(disk.image, true, &error), 0);
	fake_fault(&disk.fake, CHUNK_SYNC, 0, 1, -EIO);
	ck_assert_int_eq(flush(), -EIO);
	ck_assert_int_eq(flush(), -EIO);
	close_disk();
}
END_TEST

/* File systems use the page cache even here, for the edges of a zeroed range, for example. */
START_TEST(failed_flush_of_a_file_with_direct_io_makes_all_later_ones_fail)
{
	open_direct();
	fake_fault(&disk.fake, CHUNK_SYNC, 0, 1, -EIO);
	ck_assert_int_eq(flush(), -EIO);
	ck_assert(log_capture_has(LOG_LEVEL_ERROR, "every later flush"));
	ck_assert_int_eq(flush(), -EIO);
	ck_assert_int_eq(flush(), -EIO);
	close_disk();
}
END_TEST

/* The kernel reports lost data once to each descriptor, and a direct write with its own sync may
 * take that report. */
START_TEST(flush_uses_the_buffered_descriptor_also_with_direct_io)
{
	open_direct();
	ck_assert_int_eq(flush(), 0);
	ck_assert(!disk.fake.events[0].direct);
	close_disk();
}
END_TEST

/* The kernel reports a failed write-back once and drops the data. */
START_TEST(buffered_flush_that_failed_makes_all_later_ones_fail)
{
	open_buffered();
	fake_fault(&disk.fake, CHUNK_SYNC, 0, 1, -EIO);
	ck_assert_int_eq(flush(), -EIO);
	ck_assert(log_capture_has(LOG_LEVEL_ERROR, "every later flush"));
	for (unsigned int i = 0; i < 3; i++)
		ck_assert_int_eq(flush(), -EIO);
	ck_assert(log_capture_has(LOG_LEVEL_ERROR, "start the server again"));
	assert_chunks(0, 4);
	close_disk();
}
END_TEST

START_TEST(lost_buffered_data_fails_flushes_after_a_switch_to_direct_io_too)
{
	char *error = NULL;

	open_buffered();
	fake_fault(&disk.fake, CHUNK_SYNC, 0, 1, -EIO);
	ck_assert_int_eq(write_bytes(IO_FUA, 0, 512), -EIO);
	memcpy(disk.model, bytes, 512);
	ck_assert_int_eq(image_set_direct(disk.image, true, &error), 0);
	ck_assert_ptr_null(error);
	ck_assert_int_eq(flush(), -EIO);
	close_disk();
}
END_TEST

START_TEST(buffered_fua_write_after_lost_data_fails)
{
	open_buffered();
	fake_fault(&disk.fake, CHUNK_SYNC, 0, 1, -ENOSPC);
	ck_assert_int_eq(flush(), -ENOSPC);
	ck_assert_int_ne(write_bytes(IO_FUA, 0, 512), 0);
	memcpy(disk.model, bytes, 512);
	close_disk();
}
END_TEST

/* No acknowledged byte was lost, so everything succeeds once space is free again. */
START_TEST(full_disk_during_a_buffered_fua_write_fails_no_later_flush)
{
	open_buffered();
	fake_fault(&disk.fake, CHUNK_WRITE, 0, 1, -ENOSPC);
	ck_assert_int_eq(write_bytes(IO_FUA, 0, 512), -ENOSPC);
	ck_assert_int_eq(flush(), 0);
	ck_assert_int_eq(write_bytes(IO_FUA, 0, 512), 0);
	close_disk();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "fua"},
		{.test = plain_write_syncs_nothing},
		{.test = fua_write_of_one_direct_chunk_carries_its_own_sync},
		{.test = rest_of_a_short_fua_write_carries_its_own_sync_too},
		{.test = fua_write_of_several_chunks_ends_with_one_sync},
		{.test = fua_write_through_the_page_cache_ends_with_a_sync},
		{.test = fua_write_on_a_backend_without_dsync_ends_with_a_sync},
		{.test = fua_read_modify_write_ends_with_a_sync},
		{.test = fua_zero_and_discard_end_with_a_sync},
		{.test = fua_zero_by_writing_is_durable_too},
		{.test = read_ignores_fua},
		{.test = sync_begins_when_the_last_write_is_done_and_is_awaited},
		{.test = write_that_waits_for_its_sync_bars_nobody},
		{.test = failed_write_is_not_synced},
		{.test = failed_sync_fails_the_fua_write},
		{.name = "flush"},
		{.test = flush_is_one_sync_whatever_range_it_carries},
		{.test = interrupted_sync_is_tried_again},
		{.test = failed_flush_is_logged},
		{.test = flush_after_a_failed_one_succeeds_on_a_device_with_direct_io},
		{.test = flush_uses_the_buffered_descriptor_also_with_direct_io},
		{.name = "lost"},
		{.test = buffered_flush_that_failed_makes_all_later_ones_fail},
		{.test = failed_flush_of_a_file_with_direct_io_makes_all_later_ones_fail},
		{.test = failed_flush_of_a_device_whose_direct_io_was_off_once_makes_all_later_ones_fail},
		{.test = lost_buffered_data_fails_flushes_after_a_switch_to_direct_io_too},
		{.test = buffered_fua_write_after_lost_data_fails},
		{.test = full_disk_during_a_buffered_fua_write_fails_no_later_flush},
		{0},
	};

	return suite_run("io_durability", cases);
}
