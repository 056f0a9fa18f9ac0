/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context that an event loop hosts: it never waits, and its event tells the loop when to run it
 * again.  Here the host is a loop around poll(), which has a ring where the context shares one.
 */
#include "engine/backend/choice.h"
#include "engine/backend/ring.h"

#include "engine/context/ioctx.h"
#include "engine/context/pool.h"
#include "engine/image/image.h"
#include "engine/image/image_status.h"
#include "engine/io/image_state.h"
#include "engine/io/io.h"
#include "engine/io/ioctx_state.h"

#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define KIB      1024u
#define MIB      (1u << 20)
#define REQUESTS 64

static const struct way {
	const char *name;
	enum engine_choice engine;
	bool ring;   /* the host has one */
	bool shared; /* and the context uses it */
	const struct backend *backend;
} ways[] = {
	{"io_uring on the host's ring", ENGINE_IO_URING, true, true, &backend_uring},
	/* An export that was added to a server whose loops use epoll. */
	{"io_uring without a host's ring", ENGINE_IO_URING, false, false, &backend_uring},
	{"aio", ENGINE_AIO, false, false, &backend_aio},
	{"threads", ENGINE_THREADS, false, false, &backend_threads},
	/* Another export of the same server uses io_uring. */
	{"aio beside the host's ring", ENGINE_AIO, true, false, &backend_aio},
	{"threads beside the host's ring", ENGINE_THREADS, true, false, &backend_threads},
};

static int file;
static struct image *image;
static struct ring ring;
static const struct way *way;
static struct ioctx *ctx;
static unsigned int done_count;

static void
open_host(const struct way *this_way)
{
	const struct image_config config = {
		.direct_io = TRISTATE_AUTO,
		.engine = this_way->engine,
		.depth = 8,
		.discard = TRISTATE_ON,
	};
	char path[SCRATCH_PATH];
	char *error;

	way = this_way;
	log_capture_begin();
	file = scratch_file(4 * MIB);
	ck_assert_msg(image_open(AT_FDCWD, scratch_path(file, path), 0, &config, &image, &error) ==
			      0,
		      "%s", error);
	if (way->ring)
		ck_assert_int_eq(ring_init(&ring, 4, 64, 0, 64), 0);
	if (way->ring)
		ring_offer_memory(&ring);
	ck_assert_int_eq(pool_host(image, way->ring ? &ring : NULL, &ctx), 0);
	ck_assert_ptr_eq(ctx->backend, way->backend);
	done_count = 0;
}

static void
close_host(void)
{
	pool_unhost(image, ctx);
	if (way->ring)
		ring_fini(&ring);
	image_close(image);
	close(file);
	log_capture_end();
}

static void
count_done(struct io *io)
{
	ck_assert_int_eq(io->result, 0);
	done_count++;
}

/* As an event loop does: runs the context, waits for its event, and runs it again. */
static void
run_until_done(unsigned int count)
{
	ioctx_run(ctx, false);
	while (done_count < count) {
		struct pollfd event = {.fd = ioctx_event(ctx), .events = POLLIN};
		eventfd_t n;

		if (way->shared) {
			ck_assert_int_eq(ring_run_for(&ring, 1000), 0);
		} else {
			ck_assert_int_eq(poll(&event, 1, 10000), 1);
			eventfd_read(event.fd, &n);
		}
		ioctx_run(ctx, false);
	}
	ck_assert_uint_eq(done_count, count);
}

START_TEST(operations_are_done_and_the_host_is_told)
{
	static struct io ios[REQUESTS];
	unsigned char *bytes = buffer_new(4 * MIB, 0), *seen = buffer_new(4 * MIB, 0);

	open_host(&ways[_i]);
	buffer_fill(bytes, 4 * MIB, 5);
	/* More ios than the depth, each larger than a chunk, some of them unaligned. */
	for (unsigned int i = 0; i < REQUESTS; i++) {
		ios[i] = (struct io){.op = IO_WRITE,
				     .offset = i * 64 * KIB + (i % 3),
				     .length = 64 * KIB - (i % 3),
				     .buffer = bytes + i * 64 * KIB + (i % 3),
				     .done = count_done};
		io_submit(ctx, &ios[i]);
	}
	run_until_done(REQUESTS);
	for (unsigned int i = 0; i < REQUESTS; i++) {
		ios[i] = (struct io){.op = i ? IO_READ : IO_FLUSH,
				     .offset = i * 64 * KIB + (i % 3),
				     .length = 64 * KIB - (i % 3),
				     .buffer = seen + i * 64 * KIB + (i % 3),
				     .done = count_done};
		io_submit(ctx, &ios[i]);
	}
	done_count = 0;
	run_until_done(REQUESTS);
	for (unsigned int i = 1; i < REQUESTS; i++)
		ck_assert_mem_eq(seen + i * 64 * KIB + (i % 3), bytes + i * 64 * KIB + (i % 3),
				 64 * KIB - (i % 3));
	buffer_free(seen);
	buffer_free(bytes);
	close_host();
}
END_TEST

START_TEST(run_never_waits)
{
	struct io io = {.op = IO_READ, .length = 2 * MIB, .done = count_done};

	open_host(&ways[_i]);
	io.buffer = buffer_new(2 * MIB, 0);
	ioctx_run(ctx, false);
	io_submit(ctx, &io);
	ck_assert_uint_eq(done_count, 0);
	run_until_done(1);
	ck_assert(!ioctx_wants_run(ctx));
	ioctx_run(ctx, false);
	buffer_free(io.buffer);
	close_host();
}
END_TEST

static uint64_t
count_registered(void)
{
	return counter_read(&ctx->counters, COUNTER_REGISTERED);
}

static void
execute(struct io *io)
{
	io->done = count_done;
	done_count = 0;
	io_submit(ctx, io);
	run_until_done(1);
}

/* Writes at 0 and reads back what lies in `memory`, which may be registered. */
static void
write_and_read(unsigned char *memory, size_t length, const struct registered *registered)
{
	unsigned char *bytes = buffer_new(length, 0);
	struct io io = {.op = IO_WRITE,
			.flags = IO_FUA,
			.length = length,
			.buffer = memory,
			.registered = registered};

	buffer_fill(bytes, length, (unsigned int)length);
	memcpy(memory, bytes, length);
	execute(&io);
	memset(memory, 0, length);
	io.op = IO_READ;
	execute(&io);
	ck_assert_mem_eq(memory, bytes, length);
	buffer_free(bytes);
}

START_TEST(memory_registered_with_the_shared_ring_is_used_as_far_as_it_goes)
{
	unsigned char *memory = buffer_new(MIB, 0);
	struct registered registered = {NULL, 0};
	uint64_t shared, before;

	open_host(&ways[_i]);
	shared = way->shared && ring.memory.count ? 1 : 0;
	before = count_registered();
	write_and_read(memory, 512 * KIB, NULL);
	write_and_read(memory, 512 * KIB, &registered);
	ck_assert_uint_eq(count_registered(), before);
	if (way->ring) {
		registered.place = ring_add_memory(&ring, memory, 512 * KIB);
		registered.end = (char *)memory + 512 * KIB;
	}
	write_and_read(memory, 512 * KIB, &registered);
	ck_assert_uint_eq(count_registered(), before + 2 * shared);
	/* Parts of these lie beyond its end. */
	write_and_read(memory, 600 * KIB, &registered);
	ck_assert_uint_eq(count_registered(), before + 4 * shared);
	write_and_read(memory + 448 * KIB, 128 * KIB, &registered);
	ck_assert_uint_eq(count_registered(), before + 4 * shared);
	if (way->ring)
		ring_remove_memory(&ring, registered.place, 512 * KIB);
	buffer_free(memory);
	close_host();
}
END_TEST

/* Most contexts of a loop use none, and registered memory is locked. */
START_TEST(bounce_buffer_is_registered_when_it_is_used)
{
	unsigned char *memory = buffer_new(MIB, 0);
	struct image_status status;

	open_host(&ways[_i]);
	image_status(image, &status);
	if (way->shared && status.direct && ring.memory.count) {
		ck_assert(!ring.memory.taken[0]);
		write_and_read(memory + 1, 4096, NULL);
		ck_assert(ring.memory.taken[0]);
		ck_assert_uint_eq(count_registered(), 2);
		write_and_read(memory + 1, 900 * KIB, NULL);
		ck_assert_uint_eq(count_registered(), 4);
		pool_unhost(image, ctx);
		for (unsigned int i = 0; i < ring.memory.count; i++)
			ck_assert(!ring.memory.taken[i]);
		ck_assert_int_eq(pool_host(image, &ring, &ctx), 0);
	}
	buffer_free(memory);
	close_host();
}
END_TEST

START_TEST(contexts_of_hosts_count_in_the_status)
{
	struct io io = {.op = IO_READ, .length = 4096, .done = count_done};
	struct image_status status;

	open_host(&ways[_i]);
	io.buffer = buffer_new(4096, 0);
	io_submit(ctx, &io);
	run_until_done(1);
	image_status(image, &status);
	ck_assert_uint_eq(status.contexts, 1);
	ck_assert_uint_eq(status.counters[COUNTER_READS], 1);
	buffer_free(io.buffer);
	close_host();
}
END_TEST

/* An export is given new facts when it is resized or set: its loops make new contexts for it. */
START_TEST(what_a_context_counted_stays_in_the_status_without_it)
{
	struct io io = {.op = IO_READ, .length = 4096, .done = count_done};
	struct image_status status;

	open_host(&ways[_i]);
	io.buffer = buffer_new(4096, 0);
	for (unsigned int i = 1; i <= 3; i++) {
		done_count = 0;
		io_submit(ctx, &io);
		run_until_done(1);
		pool_unhost(image, ctx);
		image_status(image, &status);
		ck_assert_uint_eq(status.contexts, 0);
		ck_assert_uint_eq(status.counters[COUNTER_READS], i);
		ck_assert_uint_eq(status.counters[COUNTER_READ_BYTES], i * 4096);
		ck_assert_int_eq(pool_host(image, way->ring ? &ring : NULL, &ctx), 0);
	}
	buffer_free(io.buffer);
	close_host();
}
END_TEST

static void
add_way(Suite *suite, int i)
{
	const struct suite_row cases[] = {
		{.name = ways[i].name},
		{.test = operations_are_done_and_the_host_is_told, .first = i, .last = i + 1},
		{.test = run_never_waits, .first = i, .last = i + 1},
		{.test = memory_registered_with_the_shared_ring_is_used_as_far_as_it_goes,
		 .first = i,
		 .last = i + 1},
		{.test = bounce_buffer_is_registered_when_it_is_used, .first = i, .last = i + 1},
		{.test = contexts_of_hosts_count_in_the_status, .first = i, .last = i + 1},
		{.test = what_a_context_counted_stays_in_the_status_without_it,
		 .first = i,
		 .last = i + 1},
		{0},
	};
	char reason[REASON_MAX];

	if (backend_works(ways[i].engine, reason) < 0 ||
	    (ways[i].ring && backend_works(ENGINE_IO_URING, reason) < 0))
		printf("SKIP: %s: %s\n", ways[i].name, reason);
	else
		suite_add(suite, cases);
}

int
main(void)
{
	Suite *suite = suite_create("host");

	for (int i = 0; i < (int)(sizeof(ways) / sizeof(ways[0])); i++)
		add_way(suite, i);
	return suite_finish(suite);
}
