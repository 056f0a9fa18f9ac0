/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each real backend, on a real file.
 */
#include "engine/backend/choice.h"
#include "engine/backing/open.h"

#include "engine/context/ioctx.h"
#include "engine/context/pool.h"
#include "engine/image/image.h"
#include "engine/io/io.h"

#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define KIB 1024u
#define MIB (1u << 20)

struct way {
	const char *name;
	const struct backend *backend;
	enum engine_choice engine;
	bool direct;
	bool poll;
};

static const struct way ways[] = {
	{"io_uring, page cache", &backend_uring, ENGINE_IO_URING, false, false},
	{"io_uring, direct I/O", &backend_uring, ENGINE_IO_URING, true, false},
	{"io_uring, polled", &backend_polled, ENGINE_IO_URING, true, true},
	{"aio, page cache", &backend_aio, ENGINE_AIO, false, false},
	{"aio, direct I/O", &backend_aio, ENGINE_AIO, true, false},
	{"threads, page cache", &backend_calls, ENGINE_THREADS, false, false},
	{"threads, direct I/O", &backend_calls, ENGINE_THREADS, true, false},
};

static int file;
static struct image *image;
static struct ioctx *ctx;
static unsigned char model[2 * MIB];
static unsigned int page_cache = PAGE_CACHE_AUTO;

static int
try_open(const struct way *way, unsigned int depth, char **error)
{
	const struct image_config config = {
		.direct_io = way->direct ? TRISTATE_ON : TRISTATE_OFF,
		.page_cache = page_cache,
		.engine = way->engine,
		.poll = way->poll ? TRISTATE_ON : TRISTATE_OFF,
		.depth = depth,
		.discard = TRISTATE_ON,
	};
	char path[SCRATCH_PATH];

	log_capture_begin();
	file = scratch_file(sizeof(model));
	buffer_fill(model, sizeof(model), 3);
	ck_assert_int_eq(pwrite(file, model, sizeof(model), 0), sizeof(model));
	return image_open(AT_FDCWD, scratch_path(file, path), 0, &config, &image, error);
}

static void
open_image(const struct way *way, unsigned int depth)
{
	char *error;

	ck_assert_msg(try_open(way, depth, &error) == 0, "%s", error);
	ck_assert_ptr_eq(image->backend, way->backend);
	ctx = pool_take(image);
	ck_assert_ptr_nonnull(ctx);
	ck_assert_ptr_eq(ctx->backend, way->backend); /* no other has taken its place */
}

static void
close_image(void)
{
	pool_give(image, ctx);
	image_close(image);
	close(file);
	log_capture_end();
}

static void
compare_file(void)
{
	unsigned char *bytes = malloc(sizeof(model));

	ck_assert_int_eq(pread(file, bytes, sizeof(model), 0), sizeof(model));
	ck_assert_mem_eq(bytes, model, sizeof(model));
	free(bytes);
}

static uint64_t random_state;

static uint32_t
random_below(uint32_t limit)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(random_state >> 33) % limit;
}

struct change {
	struct test_io op;
	unsigned char *buffer;
	uint64_t offset, length;
};

/* Submits a random operation on one quarter of the image. */
static void
submit_random(struct change *change, unsigned int quarter, unsigned int seed)
{
	static const enum io_op ops[] = {IO_READ, IO_READ, IO_WRITE, IO_WRITE, IO_ZERO};
	uint32_t room = sizeof(model) / 4, step = random_below(2) ? 512 : 1;
	enum io_op op = ops[random_below(5)];

	change->offset = random_below(room / step) * step;
	change->length = random_below((uint32_t)(room - change->offset) / step + 1) * step;
	change->offset += quarter * room;
	change->buffer = buffer_new(change->length, random_below(2));
	if (op == IO_WRITE) {
		buffer_fill(change->buffer, change->length, seed);
		memcpy(model + change->offset, change->buffer, change->length);
	} else if (op == IO_ZERO) {
		memset(model + change->offset, 0, change->length);
	}
	test_io_submit(ctx, &change->op, op, random_below(16) ? IO_MAY_UNMAP : IO_FUA,
		       change->offset, change->length, change->buffer);
}

static void
finish_change(struct change *change)
{
	ck_assert_int_eq(test_io_finish(ctx, &change->op), 0);
	if (change->op.io.op == IO_READ && change->length)
		ck_assert_mem_eq(change->buffer, model + change->offset, change->length);
	buffer_free(change->buffer);
}

START_TEST(random_operations_leave_what_the_model_says)
{
	const struct way *way = &ways[_i];
	struct change changes[4];

	for (unsigned int depth = 1; depth <= 16; depth *= 4) {
		open_image(way, depth);
		random_state = depth;
		for (unsigned int round = 0; round < 4; round++) {
			for (unsigned int i = 0; i < 4; i++)
				submit_random(&changes[i], i, 10 * round + i);
			for (unsigned int i = 0; i < 4; i++)
				finish_change(&changes[i]);
		}
		ck_assert_int_eq(test_io_execute(ctx, IO_FLUSH, 0, 0, 0, NULL), 0);
		compare_file();
		ck_assert_uint_eq(log_capture_count(LOG_LEVEL_ERROR), 0);
		close_image();
	}
}
END_TEST

START_TEST(discarded_range_of_a_file_reads_as_zeroes)
{
	unsigned char *buffer = buffer_new(256 * KIB, 0);

	open_image(&ways[_i], 4);
	ck_assert_int_eq(test_io_execute(ctx, IO_DISCARD, IO_FUA, 64 * KIB, 128 * KIB, NULL), 0);
	if (log_capture_count(LOG_LEVEL_WARNING) == 0)
		memset(model + 64 * KIB, 0, 128 * KIB);
	ck_assert_int_eq(test_io_execute(ctx, IO_READ, 0, 0, 256 * KIB, buffer), 0);
	ck_assert_mem_eq(buffer, model, 256 * KIB);
	compare_file();
	buffer_free(buffer);
	close_image();
}
END_TEST

START_TEST(truncated_file_gives_an_error_and_no_zeroes)
{
	unsigned char *buffer = buffer_new(MIB, 0);

	open_image(&ways[_i], 4);
	ck_assert_int_eq(ftruncate(file, MIB + 100), 0);
	ck_assert_int_eq(test_io_execute(ctx, IO_READ, 0, 512 * KIB, MIB, buffer), -EIO);
	ck_assert(log_capture_has(LOG_LEVEL_ERROR,
				  "the file ends at byte 1048676: it was truncated"));
	ck_assert_int_eq(test_io_execute(ctx, IO_READ, 0, 0, MIB, buffer), 0);
	ck_assert_mem_eq(buffer, model, MIB);
	buffer_free(buffer);
	close_image();
}
END_TEST

START_TEST(write_that_the_kernel_refuses_finds_no_space)
{
	const struct rlimit limit = {MIB, MIB};
	unsigned char *buffer = buffer_new(MIB, 0);

	open_image(&ways[_i], 4);
	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	buffer_fill(buffer, MIB, 9);
	ck_assert_int_eq(test_io_execute(ctx, IO_WRITE, 0, MIB, MIB, buffer), -ENOSPC);
	ck_assert(log_capture_has(LOG_LEVEL_ERROR, "File too large"));
	ck_assert_int_eq(test_io_execute(ctx, IO_WRITE, 0, 0, MIB, buffer), 0);
	memcpy(model, buffer, MIB);
	compare_file();
	buffer_free(buffer);
	close_image();
}
END_TEST

START_TEST(only_direct_io_leaves_nothing_in_the_page_cache)
{
	unsigned char *buffer = buffer_new(MIB, 0);

	open_image(&ways[_i], 4);
	ck_assert_int_eq(scratch_drop_cache(file), 0);
	ck_assert_int_eq(test_io_execute(ctx, IO_READ, 0, 4096, MIB - 4096, buffer), 0);
	ck_assert_int_eq(test_io_execute(ctx, IO_READ, 0, 4097, 100, buffer), 0);
	if (ways[_i].direct)
		ck_assert_int_eq(scratch_cached_pages(file), 0);
	else
		ck_assert_int_gt(scratch_cached_pages(file), 0);
	buffer_free(buffer);
	close_image();
}
END_TEST

START_TEST(page_cache_drop_keeps_data_and_no_pages)
{
	unsigned char *buffer = buffer_new(MIB, 0);

	page_cache = PAGE_CACHE_DROP;
	open_image(&ways[_i], 4);
	ck_assert_int_eq(scratch_drop_cache(file), 0);
	ck_assert_int_eq(test_io_execute(ctx, IO_READ, 0, 0, MIB, buffer), 0);
	ck_assert_mem_eq(buffer, model, MIB);
	buffer_fill(buffer, MIB, 11);
	ck_assert_int_eq(test_io_execute(ctx, IO_WRITE, 0, 0, MIB, buffer), 0);
	memcpy(model, buffer, MIB);
	for (uint64_t at = MIB + 100; at < 2 * MIB - 4096; at += 4096) {
		ck_assert_int_eq(test_io_execute(ctx, IO_WRITE, 0, at, 300, buffer), 0);
		memcpy(model + at, buffer, 300);
	}
	ck_assert_int_eq(test_io_execute(ctx, IO_WRITE, IO_FUA, MIB, 256 << 10, buffer), 0);
	memcpy(model + MIB, buffer, 256 << 10);
	scratch_await_no_cache(file);
	compare_file();
	buffer_free(buffer);
	close_image();
}
END_TEST

/* More writes than the context has chunks, all of them durable in themselves. */
START_TEST(many_small_fua_writes_are_all_done)
{
	struct test_io ops[8];
	unsigned char *buffer = buffer_new(8 * 4096, 0);

	open_image(&ways[_i], 2);
	buffer_fill(buffer, 8 * 4096, 4);
	for (unsigned int i = 0; i < 8; i++)
		test_io_submit(ctx, &ops[i], IO_WRITE, IO_FUA, i * 4096, 4096, buffer + i * 4096);
	for (unsigned int i = 0; i < 8; i++)
		ck_assert_int_eq(test_io_finish(ctx, &ops[i]), 0);
	memcpy(model, buffer, 8 * 4096);
	compare_file();
	buffer_free(buffer);
	close_image();
}
END_TEST

/* Takes the place of the tests above where this machine lacks the backend. */
START_TEST(way_that_this_machine_lacks_is_refused_with_the_reason)
{
	char *error = NULL;

	ck_assert_int_lt(try_open(&ways[_i], 4, &error), 0);
	ck_assert_ptr_nonnull(error);
	ck_assert_msg(strstr(error, " is not possible: ") != NULL, "%s", error);
	free(error);
	close(file);
	log_capture_end();
}
END_TEST

/* ---- What this machine has */

/* Why a way can't be tested here, or NULL. */
static const char *
absent(const struct way *way)
{
	static char why[REASON_MAX];
	char path[SCRATCH_PATH], *error = NULL;
	struct backing backing;
	const char *reason = NULL;
	int fd;

	if (backend_works(way->engine, why) < 0)
		return why;
	if (way->direct)
		reason = scratch_no_direct_io();
	if (reason || !way->poll)
		return reason;
	fd = scratch_try_file(MIB);
	if (fd < 0)
		return "no scratch file can be made";
	if (backing_open(&backing, AT_FDCWD, scratch_path(fd, path), 0, &(struct image_config){0},
			 &error) < 0) {
		reason = "the scratch file can't be opened";
	} else {
		reason = backend_polled.probe(&backing, why) < 0 ? why : NULL;
		backing_close(&backing);
	}
	close(fd);
	free(error);
	return reason;
}

static void
add_way(Suite *suite, int i)
{
	const char *reason = absent(&ways[i]);
	const struct suite_row missing[] = {
		{.name = ways[i].name},
		{.test = way_that_this_machine_lacks_is_refused_with_the_reason,
		 .first = i,
		 .last = i + 1},
		{0},
	};
	const struct suite_row present[] = {
		{.name = ways[i].name},
		{.test = random_operations_leave_what_the_model_says, .first = i, .last = i + 1},
		{.test = discarded_range_of_a_file_reads_as_zeroes, .first = i, .last = i + 1},
		{.test = truncated_file_gives_an_error_and_no_zeroes, .first = i, .last = i + 1},
		{.test = write_that_the_kernel_refuses_finds_no_space, .first = i, .last = i + 1},
		{.test = many_small_fua_writes_are_all_done, .first = i, .last = i + 1},
		{.test = only_direct_io_leaves_nothing_in_the_page_cache,
		 .first = i,
		 .last = i + 1,
		 .reason = reason ? NULL : scratch_no_view_of_cache()},
		{.test = page_cache_drop_keeps_data_and_no_pages,
		 .first = i,
		 .last = i + 1,
		 .reason = reason ? NULL : scratch_no_view_of_cache()},
		{0},
	};

	if (reason)
		printf("not here: %s: %s\n", ways[i].name, reason);
	suite_add(suite, reason ? missing : present);
}

int
main(void)
{
	Suite *suite = suite_create("backends");

	for (int i = 0; i < (int)(sizeof(ways) / sizeof(ways[0])); i++)
		add_way(suite, i);
	return suite_finish(suite);
}
