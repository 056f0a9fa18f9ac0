/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Making an I/O context, and running it.
 */
#include "engine/context/ioctx.h"

#include "engine/backend/choice.h"

#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static struct fake_image disk;

static void
open_depth(unsigned int depth)
{
	log_capture_begin();
	fake_image_open(&disk, &(struct fake_facts){.align = 512, .depth = depth});
}

static void
close_disk(void)
{
	fake_image_close(&disk);
	log_capture_end();
}

START_TEST(each_chunk_has_an_aligned_part_of_the_arena)
{
	static const unsigned int depths[] = {1, 8, 128};

	for (unsigned int i = 0; i < 3; i++) {
		open_depth(depths[i]);
		ck_assert_uint_eq(disk.ctx->depth, depths[i]);
		ck_assert_uint_eq(disk.ctx->idle_count, depths[i]);
		ck_assert_uint_eq((uintptr_t)disk.ctx->arena % 4096, 0);
		for (unsigned int j = 0; j < depths[i]; j++) {
			ck_assert_ptr_eq(disk.ctx->chunks[j].bounce,
					 disk.ctx->arena + (size_t)j * CHUNK_SIZE);
			memset(disk.ctx->chunks[j].bounce, (int)j, CHUNK_SIZE);
		}
		for (unsigned int j = 0; j < depths[i]; j++)
			ck_assert_int_eq((unsigned char)disk.ctx->chunks[j].bounce[CHUNK_SIZE - 1],
					 (int)j);
		close_disk();
	}
}
END_TEST

START_TEST(backend_that_cannot_be_set_up_is_replaced_by_threads_with_a_warning)
{
	unsigned char *buffer = buffer_new(10000, 0);
	struct ioctx *ctx;

	open_depth(4);
	disk.fake.init_result = -EAGAIN;
	ck_assert_int_eq(ioctx_new(disk.image, &ctx), 0);
	ck_assert_ptr_eq(ctx->backend, &backend_calls);
	ck_assert(log_capture_has(
		LOG_LEVEL_WARNING,
		"disk.img: cannot make another fake context: Resource temporarily unavailable"));
	ck_assert_int_eq(test_io_execute(ctx, IO_READ, 0, 512, 9728, buffer), 0);
	ck_assert_mem_eq(buffer, disk.model + 512, 9728);
	ck_assert_uint_eq(disk.fake.event_count, 0);
	ioctx_free(ctx);
	buffer_free(buffer);
	close_disk();
}
END_TEST

START_TEST(without_descriptors_there_is_no_context)
{
	struct rlimit before, none;
	struct ioctx *ctx;
	int r;

	open_depth(4);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = ioctx_new(disk.image, &ctx);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	ck_assert_int_eq(r, -EMFILE);
	ck_assert_uint_eq(disk.fake.contexts, 1);
	close_disk();
}
END_TEST

START_TEST(without_memory_there_is_no_context)
{
	struct ioctx *ctx;

	open_depth(4);
	disk.image->arena.piece = SIZE_MAX - (16u << 20); /* of buffers */
	ck_assert_int_eq(ioctx_new(disk.image, &ctx), -ENOMEM);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING,
				  "cannot make another I/O context: Cannot allocate memory"));
	close_disk();
}
END_TEST

START_TEST(run_with_nothing_under_way_returns)
{
	open_depth(4);
	ioctx_run(disk.ctx, true);
	ioctx_run(disk.ctx, false);
	close_disk();
}
END_TEST

START_TEST(run_without_wait_does_not_wait)
{
	unsigned char *buffer = buffer_new(512, 0);
	struct test_io op;

	open_depth(4);
	disk.fake.held = 1u << CHUNK_READ;
	test_io_submit(disk.ctx, &op, IO_READ, 0, 0, 512, buffer);
	ioctx_run(disk.ctx, false);
	ioctx_run(disk.ctx, false);
	ck_assert_uint_eq(op.done, 0);
	fake_release_all(&disk.fake);
	ioctx_run(disk.ctx, false);
	ck_assert_uint_eq(op.done, 1);
	buffer_free(buffer);
	close_disk();
}
END_TEST

START_TEST(run_with_wait_returns_when_something_is_complete)
{
	unsigned char *buffer = buffer_new(1024, 0);
	struct test_io first, other;

	open_depth(4);
	disk.fake.held = 1u << CHUNK_READ;
	test_io_submit(disk.ctx, &first, IO_READ, 0, 0, 512, buffer);
	test_io_submit(disk.ctx, &other, IO_READ, 0, 512, 512, buffer + 512);
	ioctx_run(disk.ctx, false);
	fake_release(&disk.fake, 1);
	ioctx_run(disk.ctx, true);
	ck_assert_uint_eq(first.done, 0);
	ck_assert_uint_eq(other.done, 1);
	fake_release(&disk.fake, 0);
	ioctx_run(disk.ctx, true);
	ck_assert_uint_eq(first.done, 1);
	buffer_free(buffer);
	close_disk();
}
END_TEST

/* ---- A context whose only request waits for a range that another thread's context holds */

struct parked {
	struct ioctx *ctx;
	double cpu_seconds;
};

static double
seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *
write_parked(void *data)
{
	struct parked *parked = data;
	char byte = 'x';

	ck_assert_int_eq(test_io_execute(parked->ctx, IO_WRITE, 0, 100, 1, &byte), 0);
	parked->cpu_seconds = seconds(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

START_TEST(request_that_waits_for_another_thread_sleeps_and_is_woken)
{
	struct parked parked;
	struct test_io first;
	pthread_t thread;
	char byte = 'y';

	open_depth(4);
	ck_assert_int_eq(ioctx_new(disk.image, &parked.ctx), 0);
	disk.fake.held = 1u << CHUNK_READ;
	test_io_submit(disk.ctx, &first, IO_WRITE, 0, 99, 1, &byte);
	ioctx_run(disk.ctx, false);
	ck_assert_int_eq(pthread_create(&thread, NULL, write_parked, &parked), 0);
	while (atomic_load(&disk.image->ranges->contended) < 1)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
	fake_release_all(&disk.fake);
	ck_assert_int_eq(test_io_finish(disk.ctx, &first), 0);
	pthread_join(thread, NULL);
	ck_assert_double_lt(parked.cpu_seconds, 0.1);
	disk.model[99] = 'y';
	disk.model[100] = 'x';
	fake_image_compare(&disk);
	ioctx_free(parked.ctx);
	close_disk();
}
END_TEST

START_TEST(requests_of_one_context_that_wait_for_each_other_are_all_done)
{
	struct test_io ops[12];
	unsigned char value[12];

	open_depth(3);
	for (unsigned int i = 0; i < 12; i++) {
		value[i] = (unsigned char)(0x40 + i);
		disk.model[1000 + i] = value[i];
		test_io_submit(disk.ctx, &ops[i], IO_WRITE, IO_FUA, 1000 + i, 1, &value[i]);
	}
	while (disk.ctx->unfinished > 0)
		ioctx_run(disk.ctx, true);
	for (unsigned int i = 0; i < 12; i++) {
		ck_assert_uint_eq(ops[i].done, 1);
		ck_assert_int_eq(ops[i].io.result, 0);
	}
	fake_image_compare(&disk);
	close_disk();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "make"},
		{.test = each_chunk_has_an_aligned_part_of_the_arena},
		{.test = backend_that_cannot_be_set_up_is_replaced_by_threads_with_a_warning},
		{.test = without_descriptors_there_is_no_context},
		{.test = without_memory_there_is_no_context},
		{.name = "run"},
		{.test = run_with_nothing_under_way_returns},
		{.test = run_without_wait_does_not_wait},
		{.test = run_with_wait_returns_when_something_is_complete},
		{.name = "parked"},
		{.test = request_that_waits_for_another_thread_sleeps_and_is_woken},
		{.test = requests_of_one_context_that_wait_for_each_other_are_all_done},
		{0},
	};

	return suite_run("ioctx", cases);
}
