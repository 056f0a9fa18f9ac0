/* SPDX-License-Identifier: BSD-3-Clause */
/* Overlapping writes exclude each other while direct I/O is switched, and between threads. */
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

static void
submit_write(struct ioctx *ctx, struct test_io *op, uint64_t offset, uint64_t length)
{
	test_io_submit(ctx, op, IO_WRITE, 0, offset, length, bytes + offset);
	memcpy(fake_image_at(&disk, offset), bytes + offset, length);
}

/* ---- Direct I/O is switched while writes wait */

static void *
switch_direct(void *on)
{
	char *error = NULL;

	ck_assert_int_eq(image_set_direct(disk.image, on != NULL, &error), 0);
	return NULL;
}

/* Waits until so many ranges are in the queue. */
static void
await_contended(unsigned int count)
{
	while (atomic_load(&disk.image->ranges->contended) < count)
		sched_yield();
}

START_TEST(unaligned_write_that_waits_while_direct_io_goes_off_is_a_plain_write)
{
	struct test_io first, waiting;
	pthread_t switcher;

	open_direct(512);
	disk.fake.held = 1u << CHUNK_READ;
	submit_write(disk.ctx, &first, 10, 20);
	ioctx_run(disk.ctx, false);
	pthread_create(&switcher, NULL, switch_direct, NULL);
	await_contended(1);
	submit_write(second, &waiting, 40, 20);
	ioctx_run(second, false);
	ck_assert_uint_eq(disk.fake.event_count, 1);
	fake_release_all(&disk.fake);
	ck_assert_int_eq(test_io_finish(disk.ctx, &first), 0);
	ck_assert_int_eq(test_io_finish(second, &waiting), 0);
	pthread_join(switcher, NULL);
	ck_assert_uint_eq(disk.fake.event_count, 3);
	ck_assert(!disk.fake.events[2].direct);
	ck_assert_uint_eq(disk.fake.events[2].offset, 40);
	ck_assert_uint_eq(disk.fake.events[2].length, 20);
	close_disk();
}
END_TEST

START_TEST(unaligned_write_that_waits_while_direct_io_goes_on_has_its_block_for_itself)
{
	struct test_io first, waiting, plain;
	pthread_t switcher;

	open_with(&(struct fake_facts){.align = 512, .buffered = true});
	disk.fake.held = 1u << CHUNK_WRITE | 1u << CHUNK_READ;
	submit_write(disk.ctx, &first, 0, 512);
	ioctx_run(disk.ctx, false);
	pthread_create(&switcher, NULL, switch_direct, &disk);
	await_contended(1);
	submit_write(second, &waiting, 40, 20);
	ioctx_run(second, false);
	submit_write(disk.ctx, &plain, 512, 512); /* another block */
	ioctx_run(disk.ctx, false);
	await_contended(3);
	fake_release(&disk.fake, 0);
	ck_assert_int_eq(test_io_finish(disk.ctx, &first), 0);
	pthread_join(switcher, NULL);
	ioctx_run(second, false);
	ck_assert_uint_eq(disk.fake.event_count, 2);
	ck_assert_int_eq(disk.fake.events[1].op, CHUNK_READ);
	ck_assert(disk.fake.events[1].direct);

	/* Now a plain write to the same block has to wait. */
	submit_write(disk.ctx, &first, 0, 32 * KIB);
	ioctx_run(disk.ctx, false);
	ck_assert_uint_eq(disk.fake.event_count, 3); /* `plain` went on, `first` did not */
	fake_release_all(&disk.fake);
	ck_assert_int_eq(test_io_finish(second, &waiting), 0);
	ck_assert_int_eq(test_io_finish(disk.ctx, &first), 0);
	ck_assert_uint_eq(plain.done, 1);
	close_disk();
}
END_TEST

static void *
write_at_40(void *op)
{
	submit_write(second, op, 40, 20);
	ck_assert_int_eq(test_io_finish(second, op), 0);
	return NULL;
}

/* The switch happens before the write has its range. */
START_TEST(direct_io_that_goes_on_while_a_write_gets_its_range_is_noticed)
{
	struct range_lock *ranges;
	struct test_io op;
	pthread_t thread;

	open_with(&(struct fake_facts){.align = 512, .buffered = true});
	ranges = disk.image->ranges;
	pthread_mutex_lock(&ranges->mutex);
	atomic_fetch_add(&ranges->contended, 1); /* so that the write takes the mutex */
	pthread_create(&thread, NULL, write_at_40, &op);
	while (atomic_load(&ranges->counts[0]) == 0)
		sched_yield();
	atomic_store(&disk.image->direct, true);
	atomic_fetch_sub(&ranges->contended, 1);
	pthread_mutex_unlock(&ranges->mutex);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_READ),
			  1); /* the block was read, so its other bytes are kept */
	close_disk();
}
END_TEST

/* ---- Threads */

enum {
	THREADS = 4,
	LANES = 96,
	ROUNDS = 150
};

struct lane_writer {
	pthread_t thread;
	unsigned int number;
	uint64_t random;
};

static uint32_t
lane_random(struct lane_writer *writer, uint32_t below)
{
	writer->random = writer->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(writer->random >> 33) % below;
}

/* Each thread owns every fourth piece of 100 bytes, so that each block belongs to all of them. */
static void *
write_lanes(void *data)
{
	struct lane_writer *writer = data;
	struct ioctx *ctx = pool_take(disk.image);
	unsigned char piece[100];

	for (unsigned int i = 0; i < ROUNDS; i++) {
		unsigned int lane = lane_random(writer, LANES) * THREADS + writer->number;
		unsigned int from = lane_random(writer, 100),
			     length = 1 + lane_random(writer, 100 - from);
		uint64_t offset = lane * 100 + from;

		buffer_fill(piece, length, i * THREADS + writer->number);
		memcpy(disk.model + offset, piece, length);
		ck_assert_int_eq(test_io_execute(ctx, IO_WRITE, 0, offset, length, piece), 0);
	}
	pool_give(disk.image, ctx);
	return NULL;
}

static void *
switch_to_and_fro(void *stop)
{
	bool on = false;

	while (!atomic_load((atomic_bool *)stop)) {
		char *error = NULL;

		ck_assert_int_eq(image_set_direct(disk.image, on, &error), 0);
		on = !on;
		sched_yield();
	}
	return NULL;
}

static void
race_lanes(unsigned int align, bool switching)
{
	struct lane_writer writers[THREADS];
	atomic_bool stop = false;
	pthread_t switcher;

	open_direct(align);
	disk.fake.order = FAKE_RANDOM;
	disk.fake.shorten = 4;
	if (switching)
		pthread_create(&switcher, NULL, switch_to_and_fro, &stop);
	for (unsigned int i = 0; i < THREADS; i++) {
		writers[i] = (struct lane_writer){.number = i, .random = i};
		pthread_create(&writers[i].thread, NULL, write_lanes, &writers[i]);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(writers[i].thread, NULL);
	atomic_store(&stop, true);
	if (switching)
		pthread_join(switcher, NULL);
	close_disk();
}

START_TEST(threads_that_write_into_the_same_blocks_keep_each_others_bytes)
{
	race_lanes(4096, false);
}
END_TEST

START_TEST(bytes_are_kept_while_direct_io_is_switched_to_and_fro)
{
	race_lanes(512, true);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "switch"},
		{.test = unaligned_write_that_waits_while_direct_io_goes_off_is_a_plain_write},
		{.test = unaligned_write_that_waits_while_direct_io_goes_on_has_its_block_for_itself},
		{.test = direct_io_that_goes_on_while_a_write_gets_its_range_is_noticed},
		{.name = "threads"},
		{.test = threads_that_write_into_the_same_blocks_keep_each_others_bytes},
		{.test = bytes_are_kept_while_direct_io_is_switched_to_and_fro},
		{0},
	};

	return suite_run("io_switch", cases);
}
