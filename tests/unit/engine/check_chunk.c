/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A chunk's result: the rest of a short transfer is queued, the chunk is retried, or the io fails.
 */
#include "engine/io/chunk.h"

#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1u << 20)

static struct fake_image disk;
static unsigned char *bytes; /* 1 MiB, page-aligned */

static void
open_with(const struct fake_facts *facts)
{
	log_capture_begin();
	fake_image_open(&disk, facts);
	bytes = buffer_new(MIB, 0);
	buffer_fill(bytes, MIB, 2);
}

static void
open_direct(void)
{
	open_with(&(struct fake_facts){.align = 512});
}

static void
open_buffered(void)
{
	open_with(&(struct fake_facts){.align = 0});
}

static void
close_disk(void)
{
	buffer_free(bytes);
	fake_image_close(&disk);
	log_capture_end();
}

static uint64_t
counted(enum counter counter)
{
	return counter_read(&disk.ctx->counters, counter);
}

static int
read_bytes(uint64_t offset, uint64_t length)
{
	return test_io_execute(disk.ctx, IO_READ, 0, offset, length, bytes);
}

static int
write_bytes(uint64_t offset, uint64_t length)
{
	return test_io_execute(disk.ctx, IO_WRITE, 0, offset, length, bytes);
}

/* Reads and writes with transfers that move at most so many bytes, one after the other. */
static void
assert_short_transfers(enum chunk_op op, const int *moved, unsigned int count, uint64_t offset,
		       uint64_t length)
{
	unsigned char *memory = bytes;

	for (unsigned int i = 0; i < count; i++)
		fake_fault(&disk.fake, op, 0, 1, moved[i]);
	if (op == CHUNK_READ) {
		ck_assert_int_eq(read_bytes(offset, length), 0);
		ck_assert_mem_eq(memory, fake_image_at(&disk, offset), length);
	} else {
		memcpy(fake_image_at(&disk, offset), memory, length);
		ck_assert_int_eq(write_bytes(offset, length), 0);
		fake_image_compare(&disk);
	}
	ck_assert_uint_eq(counted(COUNTER_SHORT_TRANSFERS), count);
	ck_assert_uint_eq(counted(COUNTER_ERRORS), 0);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_ERROR), 0);
}

START_TEST(short_buffered_read_is_resumed)
{
	open_buffered();
	assert_short_transfers(CHUNK_READ, (const int[]){1, 999, 3}, 3, 7, 5000);
	close_disk();
}
END_TEST

START_TEST(short_buffered_write_is_resumed)
{
	open_buffered();
	assert_short_transfers(CHUNK_WRITE, (const int[]){1, 999, 3}, 3, 7, 5000);
	close_disk();
}
END_TEST

START_TEST(short_direct_read_is_resumed_at_its_last_whole_block)
{
	open_direct();
	assert_short_transfers(CHUNK_READ, (const int[]){700, 1024}, 2, 512, 4096);
	ck_assert_uint_eq(disk.fake.events[1].offset, 1024);
	ck_assert_uint_eq(disk.fake.events[1].length, 4096 - 512);
	ck_assert_uint_eq(disk.fake.events[2].offset, 2048);
	close_disk();
}
END_TEST

START_TEST(short_direct_write_is_resumed_at_its_last_whole_block)
{
	open_direct();
	assert_short_transfers(CHUNK_WRITE, (const int[]){700, 4095}, 2, 512, 8192);
	ck_assert_uint_eq(disk.fake.events[1].offset, 1024);
	ck_assert_uint_eq(disk.fake.events[2].offset, 1024 + 3584);
	close_disk();
}
END_TEST

START_TEST(short_bounced_read_is_resumed)
{
	open_direct();
	assert_short_transfers(CHUNK_READ, (const int[]){700, 512}, 2, 513, 4000);
	close_disk();
}
END_TEST

START_TEST(short_write_from_the_bounce_buffer_is_resumed)
{
	open_direct();
	fake_fault(&disk.fake, CHUNK_WRITE, 0, 1, 512);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_WRITE, 0, 512, 4096, bytes + 1), 0);
	memcpy(disk.model + 512, bytes + 1, 4096);
	fake_image_compare(&disk);
	ck_assert_uint_eq(counted(COUNTER_SHORT_TRANSFERS), 1);
	close_disk();
}
END_TEST

/* ---- The end of the file */

static void
assert_end_of_file(enum io_op op, uint64_t offset, uint64_t length, const char *detail)
{
	ck_assert_int_eq(test_io_execute(disk.ctx, op, 0, offset, length, bytes), -EIO);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_ERROR), 1);
	ck_assert_msg(log_capture_has(LOG_LEVEL_ERROR, detail), "%s",
		      log_capture_text(LOG_LEVEL_ERROR, 0));
	close_disk();
}

START_TEST(read_of_a_truncated_file_fails_instead_of_giving_zeroes)
{
	open_buffered();
	ck_assert_int_eq(ftruncate(disk.image->backing.fd, 4096), 0);
	assert_end_of_file(IO_READ, 4000, 200,
			   "the file ends at byte 4096: it was truncated while it was served");
}
END_TEST

START_TEST(read_behind_the_end_of_a_truncated_file_fails)
{
	open_buffered();
	ck_assert_int_eq(ftruncate(disk.image->backing.fd, 4096), 0);
	assert_end_of_file(IO_READ, 8192, 512, "ends at byte 4096");
}
END_TEST

START_TEST(direct_read_up_to_the_middle_of_a_block_fails)
{
	open_direct();
	ck_assert_int_eq(ftruncate(disk.image->backing.fd, 5000), 0);
	assert_end_of_file(IO_READ, 4096, 1024, "ends at byte 5000");
}
END_TEST

START_TEST(bounced_read_of_a_truncated_file_fails)
{
	open_direct();
	ck_assert_int_eq(ftruncate(disk.image->backing.fd, 5000), 0);
	assert_end_of_file(IO_READ, 4097, 1000, "ends at byte 5000");
}
END_TEST

START_TEST(part_of_a_block_behind_the_end_of_a_truncated_file_is_not_written)
{
	open_direct();
	ck_assert_int_eq(ftruncate(disk.image->backing.fd, 0), 0);
	ck_assert_int_eq(write_bytes(10, 20), -EIO);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_WRITE), 0);
	close_disk();
}
END_TEST

START_TEST(write_that_moves_nothing_fails)
{
	open_direct();
	fake_fault(&disk.fake, CHUNK_WRITE, 0, 1, 0);
	assert_end_of_file(IO_WRITE, 0, 512, "nothing was written");
}
END_TEST

/* ---- Another try */

START_TEST(interrupted_chunk_is_queued_again)
{
	open_direct();
	fake_fault(&disk.fake, CHUNK_READ, 0, 2, -EINTR);
	ck_assert_int_eq(read_bytes(0, 512), 0);
	ck_assert_mem_eq(bytes, disk.model, 512);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_READ), 3);
	ck_assert_uint_eq(counted(COUNTER_RETRIES), 2);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_ERROR), 0);
	close_disk();
}
END_TEST

/* The backend would return EAGAIN for ever; a plain system call waits for the resource. */
static void
assert_carried_out(enum io_op op, enum chunk_op kind, int result)
{
	fake_fault(&disk.fake, kind, 0, 1000, result);
	ck_assert_int_eq(test_io_execute(disk.ctx, op, 0, 512, 4096, bytes), 0);
	ck_assert_uint_eq(fake_count(&disk.fake, kind), 4);
	ck_assert_uint_eq(counted(COUNTER_RETRIES), 4);
}

START_TEST(chunk_that_the_kernel_keeps_refusing_is_read_by_a_system_call)
{
	open_direct();
	assert_carried_out(IO_READ, CHUNK_READ, -EAGAIN);
	ck_assert_mem_eq(bytes, disk.model + 512, 4096);
	close_disk();
}
END_TEST

START_TEST(chunk_that_the_kernel_keeps_refusing_is_written_by_a_system_call)
{
	open_direct();
	assert_carried_out(IO_WRITE, CHUNK_WRITE, -EAGAIN);
	memcpy(disk.model + 512, bytes, 4096);
	fake_image_compare(&disk);
	close_disk();
}
END_TEST

START_TEST(sync_that_is_always_interrupted_is_carried_out_by_a_system_call)
{
	open_direct();
	assert_carried_out(IO_FLUSH, CHUNK_SYNC, -EINTR);
	close_disk();
}
END_TEST

START_TEST(discard_that_is_always_interrupted_is_carried_out_by_a_system_call)
{
	open_direct();
	assert_carried_out(IO_DISCARD, CHUNK_ALLOCATE, -EINTR);
	memset(disk.model + 512, 0, 4096);
	fake_image_compare(&disk);
	close_disk();
}
END_TEST

/* ---- Errors */

static void
assert_error(enum io_op op, enum chunk_op kind, int error, int seen)
{
	fake_fault(&disk.fake, kind, 0, 1, error);
	ck_assert_msg(test_io_execute(disk.ctx, op, 0, 0, 512, bytes) == seen, "%s",
		      strerror(-error));
	ck_assert_msg(log_capture_has(LOG_LEVEL_ERROR, strerror(-error)), "%s is not in the log",
		      strerror(-error));
}

START_TEST(clients_see_enospc_or_eio_and_the_log_has_the_reason)
{
	open_direct();
	assert_error(IO_WRITE, CHUNK_WRITE, -ENOSPC, -ENOSPC);
	assert_error(IO_WRITE, CHUNK_WRITE, -EDQUOT, -ENOSPC);
	assert_error(IO_WRITE, CHUNK_WRITE, -EFBIG, -ENOSPC);
	assert_error(IO_WRITE, CHUNK_WRITE, -EIO, -EIO);
	assert_error(IO_READ, CHUNK_READ, -EBADMSG, -EIO);
	assert_error(IO_READ, CHUNK_READ, -EINVAL, -EIO);
	assert_error(IO_DISCARD, CHUNK_ALLOCATE, -EPERM, -EIO);
	assert_error(IO_ZERO, CHUNK_ALLOCATE, -ENOSPC, -ENOSPC);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_ERROR), 8);
	ck_assert_uint_eq(counted(COUNTER_ERRORS), 8);
	close_disk();
}
END_TEST

START_TEST(endless_errors_are_not_all_logged)
{
	open_direct();
	for (unsigned int i = 0; i < 60; i++) {
		fake_fault(&disk.fake, CHUNK_READ, 0, 1, -EIO);
		ck_assert_int_eq(read_bytes(0, 512), -EIO);
	}
	ck_assert_uint_ge(log_capture_count(LOG_LEVEL_ERROR), 1);
	ck_assert_uint_le(log_capture_count(LOG_LEVEL_ERROR), 20);
	close_disk();
}
END_TEST

/* ---- A plain system call */

static int
execute(enum chunk_op op, bool dsync, int mode, uint64_t offset, uint64_t length)
{
	const struct chunk chunk = {.op = op,
				    .rw_flags = dsync ? RWF_DSYNC : 0,
				    .mode = mode,
				    .buffer = bytes,
				    .offset = offset,
				    .length = length};

	return chunk_execute(&disk.image->backing, &chunk);
}

START_TEST(system_call_does_what_the_chunk_says)
{
	open_buffered();
	ck_assert_int_eq(execute(CHUNK_WRITE, false, 0, 100, 1000), 1000);
	memcpy(disk.model + 100, bytes, 1000);
	ck_assert_int_eq(execute(CHUNK_WRITE, true, 0, 5000, 1000), 1000);
	memcpy(disk.model + 5000, bytes, 1000);
	fake_image_compare(&disk);
	ck_assert_int_eq(execute(CHUNK_READ, false, 0, 7, 999), 999);
	ck_assert_mem_eq(bytes, disk.model + 7, 999);
	ck_assert_int_eq(execute(CHUNK_SYNC, false, 0, 0, 0), 0);
	close_disk();
}
END_TEST

START_TEST(system_call_tells_what_is_missing_or_wrong)
{
	open_buffered();
	ck_assert_int_eq(execute(CHUNK_READ, false, 0, MIB - 10, 100), 10);
	ck_assert_int_eq(execute(CHUNK_READ, false, 0, MIB, 100), 0);
	ck_assert_int_eq(execute(CHUNK_READ, false, 0, UINT64_MAX - 511, 100), -EINVAL);
	ck_assert_int_eq(execute(CHUNK_ALLOCATE, false, 0, 0, 0), -EINVAL);
	close_disk();
}
END_TEST

START_TEST(system_call_uses_the_descriptor_of_the_chunk)
{
	struct chunk chunk = {.op = CHUNK_SYNC, .direct = true};

	open_buffered(); /* direct_fd is -1 */
	ck_assert_int_eq(chunk_execute(&disk.image->backing, &chunk), -EBADF);
	chunk.direct = false;
	ck_assert_int_eq(chunk_execute(&disk.image->backing, &chunk), 0);
	close_disk();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "short"},
		{.test = short_buffered_read_is_resumed},
		{.test = short_buffered_write_is_resumed},
		{.test = short_direct_read_is_resumed_at_its_last_whole_block},
		{.test = short_direct_write_is_resumed_at_its_last_whole_block},
		{.test = short_bounced_read_is_resumed},
		{.test = short_write_from_the_bounce_buffer_is_resumed},
		{.name = "end"},
		{.test = read_of_a_truncated_file_fails_instead_of_giving_zeroes},
		{.test = read_behind_the_end_of_a_truncated_file_fails},
		{.test = direct_read_up_to_the_middle_of_a_block_fails},
		{.test = bounced_read_of_a_truncated_file_fails},
		{.test = part_of_a_block_behind_the_end_of_a_truncated_file_is_not_written},
		{.test = write_that_moves_nothing_fails},
		{.name = "again"},
		{.test = interrupted_chunk_is_queued_again},
		{.test = chunk_that_the_kernel_keeps_refusing_is_read_by_a_system_call},
		{.test = chunk_that_the_kernel_keeps_refusing_is_written_by_a_system_call},
		{.test = sync_that_is_always_interrupted_is_carried_out_by_a_system_call},
		{.test = discard_that_is_always_interrupted_is_carried_out_by_a_system_call},
		{.name = "errors"},
		{.test = clients_see_enospc_or_eio_and_the_log_has_the_reason},
		{.test = endless_errors_are_not_all_logged},
		{.name = "calls"},
		{.test = system_call_does_what_the_chunk_says, .reason = scratch_no_dsync()},
		{.test = system_call_tells_what_is_missing_or_wrong},
		{.test = system_call_uses_the_descriptor_of_the_chunk},
		{0},
	};

	return suite_run("chunk", cases);
}
