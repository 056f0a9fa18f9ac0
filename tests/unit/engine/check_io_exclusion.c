/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of the same range run one after the other.  With direct I/O this includes all changes
 * within one block, which is read, modified and written back: no other write's bytes in it may be
 * lost.
 */
#include "engine/io/io.h"

#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define KIB 1024u
#define MIB (1u << 20)

static struct fake_image disk;
static struct ioctx *second; /* stands for another thread's context */
static unsigned char *bytes; /* 1 MiB to be written, page-aligned */

static void
open_with(const struct fake_facts *facts)
{
	log_capture_begin();
	fake_image_open(&disk, facts);
	ck_assert_int_eq(ioctx_new(disk.image, &second), 0);
	bytes = buffer_new(MIB, 0);
	buffer_fill(bytes, MIB, 2);
}

static void
open_direct(unsigned int align)
{
	open_with(&(struct fake_facts){.align = align});
}

static void
close_disk(void)
{
	fake_image_compare(&disk);
	buffer_free(bytes);
	ioctx_free(second);
	fake_image_close(&disk);
	log_capture_end();
}

static uint64_t
counted(enum counter counter)
{
	return counter_read(&disk.ctx->counters, counter);
}

static void
submit_write(struct ioctx *ctx, struct test_io *op, uint64_t offset, uint64_t length)
{
	test_io_submit(ctx, op, IO_WRITE, 0, offset, length, bytes + offset);
	memcpy(fake_image_at(&disk, offset), bytes + offset, length);
}

static void
write_now(uint64_t offset, uint64_t length)
{
	struct test_io op;

	submit_write(disk.ctx, &op, offset, length);
	ck_assert_int_eq(test_io_finish(disk.ctx, &op), 0);
}

static void
write_around_blocks(unsigned int align)
{
	const uint64_t starts[] = {0, 1, align - 1, align, align + 3, 5 * align - 1};
	const uint64_t lengths[] = {1,         align - 1,     align,        align + 1,
				    2 * align, 3 * align - 2, 200 * KIB + 1};

	open_direct(align);
	for (unsigned int i = 0; i < 6; i++) {
		for (unsigned int j = 0; j < 7; j++) {
			write_now(starts[i], lengths[j]);
			fake_image_compare(&disk);
			buffer_fill(bytes, MIB, 100 * i + j);
		}
	}
	close_disk();
}

START_TEST(unaligned_write_keeps_neighbours_in_512_byte_blocks)
{
	write_around_blocks(512);
}
END_TEST

START_TEST(unaligned_write_keeps_neighbours_in_4096_byte_blocks)
{
	write_around_blocks(4096);
}
END_TEST

START_TEST(only_the_blocks_at_the_edges_are_read)
{
	open_direct(512);
	write_now(100, 10000); /* ends at 10100, in the block that begins at 9728 */
	ck_assert_uint_eq(counted(COUNTER_READ_MODIFY_WRITES), 2);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_READ), 2);
	for (unsigned int i = 0; i < disk.fake.event_count; i++) {
		const struct fake_event *event = &disk.fake.events[i];

		ck_assert(event->direct);
		if (event->op != CHUNK_READ)
			continue;
		ck_assert_uint_eq(event->length, 512);
		ck_assert(event->offset == 0 || event->offset == 9728);
	}
	close_disk();
}
END_TEST

START_TEST(write_inside_one_block_reads_it_once)
{
	open_direct(4096);
	write_now(8192 + 10, 100);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_READ), 1);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_WRITE), 1);
	ck_assert_uint_eq(disk.fake.events[1].offset, 8192);
	ck_assert_uint_eq(disk.fake.events[1].length, 4096);
	close_disk();
}
END_TEST

START_TEST(aligned_write_from_unaligned_memory_reads_nothing)
{
	struct test_io op;

	open_direct(512);
	test_io_submit(disk.ctx, &op, IO_WRITE, 0, 512, 300 * KIB, bytes + 1);
	memcpy(disk.model + 512, bytes + 1, 300 * KIB);
	ck_assert_int_eq(test_io_finish(disk.ctx, &op), 0);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_READ), 0);
	ck_assert_uint_eq(counted(COUNTER_BOUNCED), 3);
	close_disk();
}
END_TEST

START_TEST(buffered_unaligned_write_is_one_plain_write)
{
	open_with(&(struct fake_facts){.align = 512, .buffered = true});
	write_now(3, 10000);
	ck_assert_uint_eq(disk.fake.event_count, 1);
	ck_assert(!disk.fake.events[0].direct);
	ck_assert_uint_eq(disk.fake.events[0].offset, 3);
	ck_assert_uint_eq(disk.fake.events[0].length, 10000);
	close_disk();
}
END_TEST

START_TEST(neighbours_in_one_block_survive_any_order_of_completions)
{
	static const enum fake_order orders[] = {FAKE_FIRST_COME, FAKE_LAST_COME, FAKE_RANDOM};
	struct test_io ops[16];

	for (unsigned int i = 0; i < 3; i++) {
		open_direct(512);
		disk.fake.order = orders[i];
		/* 16 writes of 32 bytes each fill a block, from two contexts in turn. */
		for (unsigned int j = 0; j < 16; j++)
			submit_write(j % 2 ? second : disk.ctx, &ops[j], 512 + 32 * j, 32);
		for (unsigned int j = 0; j < 16; j++) {
			while (!ops[j].done) {
				ioctx_run(disk.ctx, false);
				ioctx_run(second, false);
			}
			ck_assert_int_eq(ops[j].io.result, 0);
		}
		close_disk();
	}
}
END_TEST

START_TEST(plain_write_waits_for_the_read_modify_write_of_its_block)
{
	struct test_io unaligned, plain;

	open_direct(512);
	disk.fake.held = 1u << CHUNK_READ | 1u << CHUNK_WRITE;
	submit_write(disk.ctx, &unaligned, 10, 20);
	ioctx_run(disk.ctx, false);
	submit_write(second, &plain, 0, 1024);
	ioctx_run(second, false);
	ck_assert_uint_eq(disk.fake.event_count, 1);
	fake_release(&disk.fake, 0); /* the block is read ... */
	ioctx_run(disk.ctx, true);
	ioctx_run(second, false);
	ck_assert_uint_eq(disk.fake.event_count, 2);
	fake_release(&disk.fake, 1); /* ... and written back */
	ck_assert_int_eq(test_io_finish(disk.ctx, &unaligned), 0);
	fake_release_all(&disk.fake);
	ck_assert_int_eq(test_io_finish(second, &plain), 0);
	close_disk();
}
END_TEST

START_TEST(read_modify_write_waits_for_a_plain_write_of_its_block)
{
	struct test_io unaligned, plain;

	open_direct(512);
	disk.fake.held = 1u << CHUNK_WRITE;
	submit_write(second, &plain, 0, 1024);
	ioctx_run(second, false);
	submit_write(disk.ctx, &unaligned, 1000, 1);
	ioctx_run(disk.ctx, false);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_READ), 0);
	fake_release_all(&disk.fake);
	ck_assert_int_eq(test_io_finish(second, &plain), 0);
	ck_assert_int_eq(test_io_finish(disk.ctx, &unaligned), 0);
	close_disk();
}
END_TEST

/* A client that gave up its first connection has sent the same write again, and then a newer one:
 * the write of the first connection, still in flight, must not land last. */
START_TEST(write_waits_for_an_older_one_that_it_overlaps)
{
	struct test_io first, again, elsewhere;

	open_direct(512);
	disk.fake.held = 1u << CHUNK_WRITE;
	submit_write(disk.ctx, &first, 0, 1024);
	ioctx_run(disk.ctx, false);
	submit_write(second, &again, 512, 1024);
	submit_write(second, &elsewhere, 1536, 512);
	ioctx_run(second, false);
	ck_assert_uint_eq(fake_in_flight(&disk.fake, 0), 2);
	fake_release(&disk.fake, 1);
	ck_assert_int_eq(test_io_finish(second, &elsewhere), 0);
	ck_assert_uint_eq(again.done, 0);
	fake_release_all(&disk.fake);
	ck_assert_int_eq(test_io_finish(disk.ctx, &first), 0);
	ck_assert_int_eq(test_io_finish(second, &again), 0);
	ck_assert_uint_eq(disk.fake.events[2].offset, 512);
	close_disk();
}
END_TEST

/* The same while the older write waits for an idle chunk and the newer one need not. */
START_TEST(overlapping_writes_are_carried_out_in_the_order_they_were_submitted_in)
{
	struct test_io busy[8], first, later;

	open_direct(512);
	ck_assert_uint_le(disk.ctx->depth, 8);
	disk.fake.held = 1u << CHUNK_WRITE;
	for (unsigned int i = 0; i < disk.ctx->depth; i++)
		submit_write(disk.ctx, &busy[i], 4096 * (i + 1), 512);
	submit_write(disk.ctx, &first, 0, 512);
	ioctx_run(disk.ctx, false);
	ck_assert_uint_eq(disk.fake.event_count, disk.ctx->depth);
	submit_write(second, &later, 0, 512);
	ioctx_run(second, false);
	ck_assert_uint_eq(disk.fake.event_count, disk.ctx->depth);
	fake_release_all(&disk.fake);
	for (unsigned int i = 0; i < disk.ctx->depth; i++)
		ck_assert_int_eq(test_io_finish(disk.ctx, &busy[i]), 0);
	ck_assert_int_eq(test_io_finish(disk.ctx, &first), 0);
	ck_assert_int_eq(test_io_finish(second, &later), 0);
	close_disk();
}
END_TEST

START_TEST(zero_waits_for_an_older_write_that_it_overlaps)
{
	struct test_io first, zero;

	open_direct(512);
	disk.fake.held = 1u << CHUNK_WRITE;
	submit_write(disk.ctx, &first, 0, 1024);
	ioctx_run(disk.ctx, false);
	test_io_submit(second, &zero, IO_ZERO, 0, 512, 1024, NULL);
	memset(fake_image_at(&disk, 512), 0, 1024);
	ioctx_run(second, false);
	ck_assert_uint_eq(disk.fake.event_count, 1);
	fake_release_all(&disk.fake);
	ck_assert_int_eq(test_io_finish(disk.ctx, &first), 0);
	ck_assert_int_eq(test_io_finish(second, &zero), 0);
	close_disk();
}
END_TEST

START_TEST(writes_elsewhere_and_reads_do_not_wait)
{
	unsigned char *buffer = buffer_new(1024, 0);
	struct test_io unaligned, plain, elsewhere;

	open_direct(512);
	disk.fake.held = 1u << CHUNK_READ;
	submit_write(disk.ctx, &unaligned, 10, 20);
	ioctx_run(disk.ctx, false);
	submit_write(second, &plain, 512, 1024);
	ck_assert_int_eq(test_io_finish(second, &plain), 0);
	test_io_submit(second, &elsewhere, IO_READ, 0, 0, 1024, buffer);
	ioctx_run(second, false);
	ck_assert_uint_eq(fake_in_flight(&disk.fake, 0), 2);
	fake_release_all(&disk.fake);
	ck_assert_int_eq(test_io_finish(second, &elsewhere), 0);
	ck_assert_int_eq(test_io_finish(disk.ctx, &unaligned), 0);
	buffer_free(buffer);
	close_disk();
}
END_TEST

START_TEST(failed_read_modify_write_lets_go_of_its_block)
{
	struct test_io op;

	open_direct(512);
	fake_fault(&disk.fake, CHUNK_READ, 0, 1, -EIO);
	test_io_submit(disk.ctx, &op, IO_WRITE, 0, 10, 20, bytes);
	ck_assert_int_eq(test_io_finish(disk.ctx, &op), -EIO);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_WRITE), 0);
	write_now(12, 5);
	ck_assert_uint_eq(atomic_load(&disk.image->ranges->contended), 0);
	close_disk();
}
END_TEST

START_TEST(failed_write_that_keeps_its_range_is_tried_again_before_newer_ones)
{
	struct test_io first, newer;

	open_direct(512);
	fake_fault(&disk.fake, CHUNK_WRITE, 0, 1, -EIO);
	test_io_submit(disk.ctx, &first, IO_WRITE, IO_KEEP_RANGE, 0, 1024, bytes);
	memcpy(fake_image_at(&disk, 0), bytes, 1024);
	submit_write(second, &newer, 512, 1024);
	ck_assert_int_eq(test_io_finish(disk.ctx, &first), -EIO);
	ck_assert(!first.io.written);
	ioctx_run(second, false);
	ck_assert_uint_eq(newer.done, 0);
	first.done = 0;
	io_retry_part(&first.io, &first.io);
	ck_assert_int_eq(test_io_finish(disk.ctx, &first), 0);
	ioctx_run(second, false);
	ck_assert_uint_eq(newer.done, 0);
	io_release_range(&first.io);
	ck_assert_int_eq(test_io_finish(second, &newer), 0);
	ck_assert_uint_eq(atomic_load(&disk.image->ranges->contended), 0);
	close_disk();
}
END_TEST

static bool
not_wanted(struct io *io)
{
	return io->issued == 0 && !io->ranged;
}

START_TEST(write_that_nobody_wants_when_it_has_its_range_is_left_undone)
{
	struct test_io op;

	open_direct(512);
	test_io_submit(disk.ctx, &op, IO_WRITE, 0, 0, 1024, bytes);
	op.io.wanted = not_wanted;
	ck_assert_int_eq(test_io_finish(disk.ctx, &op), -ECANCELED);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_WRITE), 0);
	write_now(512, 512);
	close_disk();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "blocks"},
		{.test = unaligned_write_keeps_neighbours_in_512_byte_blocks},
		{.test = unaligned_write_keeps_neighbours_in_4096_byte_blocks},
		{.test = only_the_blocks_at_the_edges_are_read},
		{.test = write_inside_one_block_reads_it_once},
		{.test = aligned_write_from_unaligned_memory_reads_nothing},
		{.test = buffered_unaligned_write_is_one_plain_write},
		{.name = "order"},
		{.test = neighbours_in_one_block_survive_any_order_of_completions},
		{.test = plain_write_waits_for_the_read_modify_write_of_its_block},
		{.test = read_modify_write_waits_for_a_plain_write_of_its_block},
		{.test = write_waits_for_an_older_one_that_it_overlaps},
		{.test = overlapping_writes_are_carried_out_in_the_order_they_were_submitted_in},
		{.test = zero_waits_for_an_older_write_that_it_overlaps},
		{.test = writes_elsewhere_and_reads_do_not_wait},
		{.test = failed_read_modify_write_lets_go_of_its_block},
		{.test = failed_write_that_keeps_its_range_is_tried_again_before_newer_ones},
		{.test = write_that_nobody_wants_when_it_has_its_range_is_left_undone},
		{0},
	};

	return suite_run("io_exclusion", cases);
}
