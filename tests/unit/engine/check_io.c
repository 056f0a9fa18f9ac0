/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of an io: refused or cut into chunks, and done once.
 * (check_io_refused.c: ios that are refused; check_io_durability.c: FUA and flush;
 * check_io_exclusion.c: changes of the same range.)
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

START_TEST(large_direct_read_is_split_into_chunks_in_flight_together)
{
	unsigned char *buffer = buffer_new(MIB, 0);
	struct test_io op;

	open_direct();
	disk.fake.held = 1u << CHUNK_READ;
	test_io_submit(disk.ctx, &op, IO_READ, 0, 512, MIB, buffer);
	ioctx_run(disk.ctx, false);
	ck_assert_uint_eq(fake_in_flight(&disk.fake, 0), MIB / CHUNK_SIZE);
	fake_release_all(&disk.fake);
	ck_assert_int_eq(test_io_finish(disk.ctx, &op), 0);
	ck_assert_mem_eq(buffer, fake_image_at(&disk, 512), MIB);
	buffer_free(buffer);
	close_disk();
}
END_TEST

/* All chunks of the context are in flight before the first of them completes. */
static void
submit_and_hold(struct test_io *op, uint64_t offset, uint64_t length, void *buffer)
{
	fake_forget(&disk.fake);
	disk.fake.held = 1u << CHUNK_READ;
	test_io_submit(disk.ctx, op, IO_READ, 0, offset, length, buffer);
	ioctx_run(disk.ctx, false);
	ck_assert_uint_eq(fake_in_flight(&disk.fake, 0), 8);
}

START_TEST(chunks_that_complete_in_reverse_order_give_the_right_bytes)
{
	open_direct();
	disk.fake.order = FAKE_LAST_COME;
	for (unsigned int misaligned = 0; misaligned < 3; misaligned++) {
		unsigned char *buffer = buffer_new(2 * MIB, misaligned);
		struct test_io op;

		submit_and_hold(&op, 3 - misaligned, 2 * MIB - 9, buffer);
		fake_release_all(&disk.fake);
		ck_assert_int_eq(test_io_finish(disk.ctx, &op), 0);
		ck_assert_mem_eq(buffer, disk.model + 3 - misaligned, 2 * MIB - 9);
		for (unsigned int i = 0; i < 8; i++)
			ck_assert_uint_eq(disk.fake.events[i].done_as, 7 - i);
		buffer_free(buffer);
	}
	close_disk();
}
END_TEST

START_TEST(done_is_called_once_and_not_before_the_last_chunk)
{
	unsigned char *buffer = buffer_new(MIB, 1);
	struct test_io op;

	open_direct();
	disk.fake.held = 1u << CHUNK_READ;
	test_io_submit(disk.ctx, &op, IO_READ, 0, 0, MIB, buffer);
	ioctx_run(disk.ctx, false);
	for (unsigned int i = 7; i > 0; i--) {
		fake_release(&disk.fake, i);
		ioctx_run(disk.ctx, true);
		ck_assert_uint_eq(op.done, 0);
	}
	fake_release(&disk.fake, 0);
	ioctx_run(disk.ctx, true);
	ck_assert_uint_eq(op.done, 1);
	ioctx_run(disk.ctx, true);
	ck_assert_uint_eq(op.done, 1);
	ck_assert_mem_eq(buffer, disk.model, MIB);
	buffer_free(buffer);
	close_disk();
}
END_TEST

START_TEST(first_error_wins_and_chunks_in_flight_are_awaited)
{
	unsigned char *buffer = buffer_new(2 * MIB, 0);
	struct test_io op;

	open_direct();
	disk.fake.held = 1u << CHUNK_WRITE;
	memcpy(buffer, disk.model, 2 * MIB);
	fake_fault(&disk.fake, CHUNK_WRITE, 0, 1, -ENOSPC);
	fake_fault(&disk.fake, CHUNK_WRITE, 0, 1, -EIO);
	test_io_submit(disk.ctx, &op, IO_WRITE, 0, 0, 2 * MIB, buffer);
	ioctx_run(disk.ctx, false);
	fake_release(&disk.fake, 5);
	ioctx_run(disk.ctx, true);
	fake_release(&disk.fake, 2);
	ioctx_run(disk.ctx, true);
	ck_assert_uint_eq(op.done, 0);
	fake_release_all(&disk.fake);
	ck_assert_int_eq(test_io_finish(disk.ctx, &op), -ENOSPC);
	ck_assert_uint_eq(fake_in_flight(&disk.fake, 0), 0);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_ERROR), 1);
	ck_assert_str_eq(
		log_capture_text(LOG_LEVEL_ERROR, 0),
		"disk.img: write of 2097152 bytes at offset 0 failed: No space left on device");
	buffer_free(buffer);
	close_disk();
}
END_TEST

START_TEST(after_an_error_no_further_chunk_is_issued)
{
	unsigned char *buffer = buffer_new(2 * MIB, 0);
	struct test_io op;

	open_direct();
	submit_and_hold(&op, 0, 2 * MIB, buffer);
	fake_fault(&disk.fake, CHUNK_READ, 0, 1, -EIO);
	fake_release_all(&disk.fake);
	ck_assert_int_eq(test_io_finish(disk.ctx, &op), -EIO);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_READ), 8); /* of 16 */
	buffer_free(buffer);
	close_disk();
}
END_TEST

START_TEST(large_request_does_not_hold_up_a_small_one_behind_it)
{
	unsigned char *large_buffer = buffer_new(4 * MIB, 0), *small_buffer = buffer_new(512, 0);
	struct test_io large, small;

	open_with(&(struct fake_facts){.file_size = 4 * MIB, .align = 512, .depth = 2});
	test_io_submit(disk.ctx, &large, IO_READ, 0, 0, 4 * MIB, large_buffer);
	test_io_submit(disk.ctx, &small, IO_READ, 0, 1024, 512, small_buffer);
	ck_assert_int_eq(test_io_finish(disk.ctx, &small), 0);
	ck_assert_uint_eq(large.done, 0);
	ck_assert_uint_le(disk.fake.event_count, 4);
	ck_assert_int_eq(test_io_finish(disk.ctx, &large), 0);
	ck_assert_mem_eq(small_buffer, disk.model + 1024, 512);
	ck_assert_mem_eq(large_buffer, disk.model, 4 * MIB);
	buffer_free(large_buffer);
	buffer_free(small_buffer);
	close_disk();
}
END_TEST

START_TEST(more_requests_than_the_depth_are_all_done)
{
	enum {
		COUNT = 20,
		LENGTH = 300 * 1024
	};
	struct test_io ops[COUNT];
	unsigned char *buffers[COUNT];

	/* A large write keeps its range's slot between chunks, so other writes wait for a slot. */
	open_with(&(struct fake_facts){.file_size = 8 * MIB, .align = 512, .depth = 2});
	for (unsigned int i = 0; i < COUNT; i++) {
		buffers[i] = buffer_new(LENGTH, 0);
		buffer_fill(buffers[i], LENGTH, 10 + i);
		memcpy(disk.model + i * LENGTH, buffers[i], LENGTH);
		test_io_submit(disk.ctx, &ops[i], IO_WRITE, 0, i * LENGTH, LENGTH, buffers[i]);
	}
	for (unsigned int i = 0; i < COUNT; i++)
		ck_assert_int_eq(test_io_finish(disk.ctx, &ops[i]), 0);
	ck_assert_uint_le(disk.fake.most_in_flight, 2);
	for (unsigned int i = 0; i < COUNT; i++)
		buffer_free(buffers[i]);
	close_disk();
}
END_TEST

START_TEST(execute_waits_for_its_own_operation_not_for_another)
{
	unsigned char *buffer = buffer_new(512, 0), *other = buffer_new(512, 0);
	struct test_io first;
	struct io io = {.op = IO_READ, .offset = 512, .length = 512, .buffer = buffer, .result = 1};

	open_direct();
	disk.fake.held = 1u << CHUNK_READ;
	memset(buffer, 0, 512);
	test_io_submit(disk.ctx, &first, IO_READ, 0, 0, 512, other);
	ioctx_run(disk.ctx, false);
	fake_release(&disk.fake, 0);
	disk.fake.held = 0;
	disk.fake.order = FAKE_FIRST_COME;
	/* Both are in flight, and the first completes in a run of its own. */
	fake_fault(&disk.fake, CHUNK_READ, 1, 1, -EINTR);
	ck_assert_int_eq(ioctx_execute(disk.ctx, &io), 0);
	ck_assert_mem_eq(buffer, disk.model + 512, 512);
	ck_assert_int_eq(test_io_finish(disk.ctx, &first), 0);
	buffer_free(buffer);
	buffer_free(other);
	close_disk();
}
END_TEST

struct chain {
	struct io io;
	unsigned int left;
};

static unsigned int chain_links;

static void
chain_next(struct io *io)
{
	struct chain *chain = (struct chain *)io, *next;

	chain_links++;
	ck_assert_int_eq(io->result, 0);
	if (chain->left > 0) {
		next = malloc(sizeof(*next));
		*next = *chain;
		next->left--;
		io_submit(io->ctx, &next->io);
	}
	free(chain);
}

/* With FAKE_ONE_BY_ONE, each run() completes only as many chunks as it has to wait for. */
static unsigned int
waits_for(enum io_op op)
{
	unsigned char *buffer = buffer_new(MIB, 16);
	struct io io = {.op = op, .length = MIB, .buffer = buffer};
	unsigned int waits;

	disk.fake.waits = 0;
	disk.fake.order = FAKE_ONE_BY_ONE;
	memcpy(buffer, fake_image_at(&disk, 0), MIB);
	ck_assert_int_eq(ioctx_execute(disk.ctx, &io), 0);
	waits = disk.fake.waits;
	buffer_free(buffer);
	return waits;
}

START_TEST(thread_that_waits_is_not_woken_for_each_chunk)
{
	open_direct();
	ck_assert_uint_eq(waits_for(IO_WRITE), 1); /* 8 chunks */
	ck_assert_uint_eq(waits_for(IO_READ), 4);  /* 4, 2, 1, 1 */
	close_disk();
}
END_TEST

START_TEST(lone_chunk_that_its_thread_waits_for_is_a_plain_call)
{
	unsigned char *buffer = buffer_new(MIB, 0);
	struct io io = {.op = IO_READ, .offset = 4096, .length = 4096, .buffer = buffer};
	struct test_io op;

	open_direct();
	disk.fake.backend.lone_by_call = true;
	ck_assert_int_eq(ioctx_execute(disk.ctx, &io), 0);
	ck_assert_mem_eq(buffer, disk.model + 4096, 4096);
	ck_assert_uint_eq(disk.fake.event_count, 0);

	/* Several chunks are in flight, and a run that need not wait does not wait. */
	io.length = MIB / 2;
	ck_assert_int_eq(ioctx_execute(disk.ctx, &io), 0);
	ck_assert_mem_eq(buffer, disk.model + 4096, MIB / 2);
	ck_assert_uint_eq(disk.fake.event_count, 4);
	test_io_submit(disk.ctx, &op, IO_READ, 0, 0, 4096, buffer);
	ck_assert_int_eq(test_io_finish(disk.ctx, &op), 0);
	ck_assert_uint_eq(disk.fake.event_count, 5);
	buffer_free(buffer);
	close_disk();
}
END_TEST

START_TEST(done_may_free_its_io_and_submit_another)
{
	unsigned char *buffer = buffer_new(512, 0);
	struct chain *chain = calloc(1, sizeof(*chain));

	open_direct();
	*chain = (struct chain){
		.io = {.op = IO_READ, .length = 512, .buffer = buffer, .done = chain_next},
		.left = 9};
	io_submit(disk.ctx, &chain->io);
	while (chain_links < 10)
		ioctx_run(disk.ctx, true);
	ck_assert_uint_eq(disk.ctx->unfinished, 0);
	buffer_free(buffer);
	close_disk();
}
END_TEST

START_TEST(backend_that_cannot_submit_is_tried_again_and_loses_nothing)
{
	open_direct();
	disk.fake.run_errors = 3;
	assert_read(5, 3000, 1);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_ERROR), 1);
	ck_assert_str_eq(log_capture_text(LOG_LEVEL_ERROR, 0),
			 "disk.img: fake: Input/output error; trying again");
	close_disk();
}
END_TEST

static uint64_t
counted(enum counter counter)
{
	return counter_read(&disk.ctx->counters, counter);
}

START_TEST(operations_and_bytes_are_counted)
{
	unsigned char *buffer = buffer_new(4096, 0);

	open_direct();
	memcpy(buffer, disk.model, 4096);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_READ, 0, 0, 4096, buffer), 0);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_READ, 0, 0, 1, buffer), 0);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_WRITE, 0, 0, 2048, buffer), 0);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_FLUSH, 0, 0, 0, NULL), 0);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_DISCARD, 0, 8192, 0, NULL), 0);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_ZERO, 0, 8192, 0, NULL), 0);
	ck_assert_uint_eq(counted(COUNTER_READS), 2);
	ck_assert_uint_eq(counted(COUNTER_READ_BYTES), 4097);
	ck_assert_uint_eq(counted(COUNTER_WRITES), 1);
	ck_assert_uint_eq(counted(COUNTER_WRITE_BYTES), 2048);
	ck_assert_uint_eq(counted(COUNTER_FLUSHES), 1);
	ck_assert_uint_eq(counted(COUNTER_DISCARDS), 1);
	ck_assert_uint_eq(counted(COUNTER_ZEROES), 1);
	ck_assert_uint_eq(counted(COUNTER_ERRORS), 0);
	buffer_free(buffer);
	close_disk();
}
END_TEST

START_TEST(failed_operation_counts_as_error_and_moved_no_bytes)
{
	unsigned char *buffer = buffer_new(512, 0);

	open_direct();
	memcpy(buffer, disk.model, 512);
	fake_fault(&disk.fake, CHUNK_READ, 0, 1, -EIO);
	fake_fault(&disk.fake, CHUNK_WRITE, 0, 1, -EIO);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_READ, 0, 0, 512, buffer), -EIO);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_WRITE, 0, 0, 512, buffer), -EIO);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_READ, 0, 0, UINT64_MAX, buffer), -EINVAL);
	ck_assert_uint_eq(counted(COUNTER_READS), 2);
	ck_assert_uint_eq(counted(COUNTER_ERRORS), 3);
	ck_assert_uint_eq(counted(COUNTER_READ_BYTES), 0);
	ck_assert_uint_eq(counted(COUNTER_WRITE_BYTES), 0);
	buffer_free(buffer);
	close_disk();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "chunks"},
		{.test = large_direct_read_is_split_into_chunks_in_flight_together},
		{.test = chunks_that_complete_in_reverse_order_give_the_right_bytes},
		{.test = done_is_called_once_and_not_before_the_last_chunk},
		{.test = first_error_wins_and_chunks_in_flight_are_awaited},
		{.test = after_an_error_no_further_chunk_is_issued},
		{.test = large_request_does_not_hold_up_a_small_one_behind_it},
		{.test = more_requests_than_the_depth_are_all_done},
		{.test = execute_waits_for_its_own_operation_not_for_another},
		{.test = thread_that_waits_is_not_woken_for_each_chunk},
		{.test = lone_chunk_that_its_thread_waits_for_is_a_plain_call},
		{.test = done_may_free_its_io_and_submit_another},
		{.test = backend_that_cannot_submit_is_tried_again_and_loses_nothing},
		{.name = "counters"},
		{.test = operations_and_bytes_are_counted},
		{.test = failed_operation_counts_as_error_and_moved_no_bytes},
		{0},
	};

	return suite_run("io", cases);
}
