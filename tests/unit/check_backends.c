/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The real ways to the kernel, each on a real file; and which of them is chosen.
 */
#include "engine/backend/choice.h"

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

static int
try_open(const struct way *way, unsigned int depth, char **error)
{
	const struct image_config config = {
		.direct_io = way->direct ? TRISTATE_ON : TRISTATE_OFF,
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
	ck_assert_ptr_eq(ctx->backend, way->backend); /* and not what it falls back on */
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
	struct request request;
	unsigned char *buffer;
	uint64_t offset, length;
};

/* An operation in the quarter of the image that is given. */
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
	request_submit(ctx, &change->request, op, random_below(16) ? IO_MAY_UNMAP : IO_FUA,
		       change->offset, change->length, change->buffer);
}

static void
finish_change(struct change *change)
{
	ck_assert_int_eq(request_finish(ctx, &change->request), 0);
	if (change->request.io.op == IO_READ && change->length)
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
		ck_assert_int_eq(request_execute(ctx, IO_FLUSH, 0, 0, 0, NULL), 0);
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
	ck_assert_int_eq(request_execute(ctx, IO_DISCARD, IO_FUA, 64 * KIB, 128 * KIB, NULL), 0);
	if (log_capture_count(LOG_LEVEL_WARNING) == 0)
		memset(model + 64 * KIB, 0, 128 * KIB);
	ck_assert_int_eq(request_execute(ctx, IO_READ, 0, 0, 256 * KIB, buffer), 0);
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
	ck_assert_int_eq(request_execute(ctx, IO_READ, 0, 512 * KIB, MIB, buffer), -EIO);
	ck_assert(log_capture_has(LOG_LEVEL_ERROR,
				  "the file ends at byte 1048676: it was truncated"));
	ck_assert_int_eq(request_execute(ctx, IO_READ, 0, 0, MIB, buffer), 0);
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
	ck_assert_int_eq(request_execute(ctx, IO_WRITE, 0, MIB, MIB, buffer), -ENOSPC);
	ck_assert(log_capture_has(LOG_LEVEL_ERROR, "File too large"));
	ck_assert_int_eq(request_execute(ctx, IO_WRITE, 0, 0, MIB, buffer), 0);
	memcpy(model, buffer, MIB);
	compare_file();
	buffer_free(buffer);
	close_image();
}
END_TEST

/* How many pages of an open file are in the page cache, or -1. */
static int
cached_pages(int fd)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char pages[sizeof(model) / 4096];
	void *map = mmap(NULL, sizeof(model), PROT_READ, MAP_SHARED, fd, 0);
	int r = map == MAP_FAILED ? -1 : mincore(map, sizeof(model), pages);
	int count = 0;

	for (size_t i = 0; r == 0 && i < sizeof(model) / page; i++)
		count += pages[i] & 1;
	if (map != MAP_FAILED)
		munmap(map, sizeof(model));
	return r < 0 ? -1 : count;
}

static int
drop_cache(int fd)
{
	fdatasync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return cached_pages(fd);
}

START_TEST(only_direct_io_leaves_nothing_in_the_page_cache)
{
	unsigned char *buffer = buffer_new(MIB, 0);

	open_image(&ways[_i], 4);
	ck_assert_int_eq(drop_cache(file), 0);
	ck_assert_int_eq(request_execute(ctx, IO_READ, 0, 4096, MIB - 4096, buffer), 0);
	ck_assert_int_eq(request_execute(ctx, IO_READ, 0, 4097, 100, buffer), 0);
	if (ways[_i].direct)
		ck_assert_int_eq(cached_pages(file), 0);
	else
		ck_assert_int_gt(cached_pages(file), 0);
	buffer_free(buffer);
	close_image();
}
END_TEST

/* Why the page cache can't be watched here, or NULL. */
static const char *
no_view_of_page_cache(void)
{
	static const char bytes[4096] = {1};
	const char *reason = NULL;
	int fd = scratch_try_file(sizeof(model));

	if (fd < 0 || pwrite(fd, bytes, sizeof(bytes), 0) != sizeof(bytes) ||
	    cached_pages(fd) < 1 || drop_cache(fd) != 0)
		reason =
			"the file system of $TMPDIR, or of the current directory, has no page cache to look at";
	if (fd >= 0)
		close(fd);
	return reason;
}

/* More writes than the context has chunks, all of them durable in themselves. */
START_TEST(many_small_fua_writes_are_all_done)
{
	struct request requests[8];
	unsigned char *buffer = buffer_new(8 * 4096, 0);

	open_image(&ways[_i], 2);
	buffer_fill(buffer, 8 * 4096, 4);
	for (unsigned int i = 0; i < 8; i++)
		request_submit(ctx, &requests[i], IO_WRITE, IO_FUA, i * 4096, 4096,
			       buffer + i * 4096);
	for (unsigned int i = 0; i < 8; i++)
		ck_assert_int_eq(request_finish(ctx, &requests[i]), 0);
	memcpy(model, buffer, 8 * 4096);
	compare_file();
	buffer_free(buffer);
	close_image();
}
END_TEST

/* Instead of those above, where a way doesn't exist. */
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

/* ---- The choice */

static const struct backend *chosen;
static char engine_reason[REASON_MAX], poll_reason[REASON_MAX], *choice_error;

static int
choose(enum engine_choice engine, enum tristate poll, bool direct)
{
	const struct image_config config = {.engine = engine, .poll = poll};
	char path[] = "disk.img";
	const struct backing backing = {.path = path,
					.fd = 0,
					.direct_fd = -1,
					.direct_reason = "the file system does not support it"};

	chosen = NULL;
	choice_error = NULL;
	return backend_choose(&config, &backing, direct, &chosen, engine_reason, poll_reason,
			      &choice_error);
}

START_TEST(auto_takes_the_first_engine_that_works)
{
	char why[REASON_MAX];

	ck_assert_int_eq(choose(ENGINE_AUTO, TRISTATE_OFF, false), 0);
	if (backend_works(ENGINE_IO_URING, why) == 0) {
		ck_assert_ptr_eq(chosen, &backend_uring);
		ck_assert_str_eq(engine_reason, "");
	} else {
		ck_assert_ptr_eq(chosen, backend_works(ENGINE_AIO, why) == 0 ? &backend_aio
									     : &backend_calls);
		ck_assert_int_eq(strncmp(engine_reason, "io_uring: ", 10), 0);
	}
	ck_assert_str_eq(poll_reason, "");
	ck_assert_ptr_null(choice_error);
}
END_TEST

START_TEST(auto_makes_plain_calls_where_the_image_is_in_memory)
{
	const struct image_config config = {.engine = ENGINE_AUTO, .poll = TRISTATE_OFF};
	const struct backing backing = {.fd = 0, .direct_fd = -1, .in_memory = true};

	ck_assert_int_eq(backend_choose(&config, &backing, false, &chosen, engine_reason,
					poll_reason, &choice_error),
			 0);
	ck_assert_ptr_eq(chosen, &backend_calls);
	ck_assert_str_eq(engine_reason, "the image is in memory");
}
END_TEST

START_TEST(threads_always_work)
{
	char why[REASON_MAX];

	ck_assert_int_eq(backend_works(ENGINE_THREADS, why), 0);
	ck_assert_int_eq(choose(ENGINE_THREADS, TRISTATE_OFF, false), 0);
	ck_assert_ptr_eq(chosen, &backend_calls);
	ck_assert_str_eq(engine_reason, "");
}
END_TEST

static void
forbid_descriptors(struct rlimit *before)
{
	struct rlimit none;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, before), 0);
	none = *before;
	none.rlim_cur = 0;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
}

START_TEST(engine_that_does_not_work_is_passed_over_with_its_reason)
{
	struct rlimit before;
	int r;

	forbid_descriptors(&before);
	r = choose(ENGINE_AUTO, TRISTATE_OFF, false);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	ck_assert_int_eq(r, 0);
	ck_assert_ptr_ne(chosen, &backend_uring);
	ck_assert_msg(strncmp(engine_reason, "io_uring: ", 10) == 0, "%s", engine_reason);
}
END_TEST

START_TEST(engine_that_was_asked_for_and_does_not_work_is_an_error)
{
	struct rlimit before;
	int r;

	forbid_descriptors(&before);
	r = choose(ENGINE_IO_URING, TRISTATE_OFF, false);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	ck_assert_int_lt(r, 0);
	ck_assert_msg(strncmp(choice_error,
			      "disk.img: engine=io_uring is not possible: io_uring: ", 53) == 0,
		      "%s", choice_error);
	free(choice_error);
}
END_TEST

START_TEST(polling_is_refused_with_the_reason_where_it_cannot_be)
{
	ck_assert_int_eq(choose(ENGINE_THREADS, TRISTATE_AUTO, true), 0);
	ck_assert_ptr_eq(chosen, &backend_calls);
	ck_assert_str_eq(poll_reason, "it needs the io_uring engine");
	ck_assert_int_eq(choose(ENGINE_THREADS, TRISTATE_ON, true), -EOPNOTSUPP);
	ck_assert_msg(strstr(choice_error,
			     "disk.img: poll=on is not possible: it needs the io_uring engine") ==
			      choice_error,
		      "%s", choice_error);
	free(choice_error);
}
END_TEST

START_TEST(polling_needs_direct_io)
{
	char why[REASON_MAX];

	ck_assert_int_eq(
		backend_polled.probe(&(struct backing){.direct_fd = -1, .direct_reason = "because"},
				     why),
		-EOPNOTSUPP);
	ck_assert_str_eq(why, "it needs direct I/O: because");
	if (backend_works(ENGINE_IO_URING, why) < 0) {
		ck_assert_int_lt(choose(ENGINE_IO_URING, TRISTATE_AUTO, false), 0);
		free(choice_error);
		return;
	}
	ck_assert_int_eq(choose(ENGINE_IO_URING, TRISTATE_AUTO, false), 0);
	ck_assert_ptr_eq(chosen, &backend_uring);
	ck_assert_str_eq(poll_reason, "it needs direct I/O, which is off");
	ck_assert_int_eq(choose(ENGINE_IO_URING, TRISTATE_AUTO, true), 0);
	ck_assert_ptr_eq(chosen, &backend_uring);
	ck_assert_str_eq(poll_reason, "it needs direct I/O: the file system does not support it");
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
	if (backing_open(&backing, AT_FDCWD, scratch_path(fd, path), 0, &error) < 0) {
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
		 .reason = reason ? NULL : no_view_of_page_cache()},
		{0},
	};

	if (reason)
		printf("not here: %s: %s\n", ways[i].name, reason);
	suite_add(suite, reason ? missing : present);
}

int
main(void)
{
	const struct suite_row choice[] = {
		{.name = "choice"},
		{.test = auto_takes_the_first_engine_that_works},
		{.test = auto_makes_plain_calls_where_the_image_is_in_memory},
		{.test = threads_always_work},
		{.test = engine_that_does_not_work_is_passed_over_with_its_reason},
		{.test = engine_that_was_asked_for_and_does_not_work_is_an_error},
		{.test = polling_is_refused_with_the_reason_where_it_cannot_be},
		{.test = polling_needs_direct_io},
		{0},
	};
	Suite *suite = suite_create("backends");

	for (int i = 0; i < (int)(sizeof(ways) / sizeof(ways[0])); i++)
		add_way(suite, i);
	suite_add(suite, choice);
	return suite_finish(suite);
}
