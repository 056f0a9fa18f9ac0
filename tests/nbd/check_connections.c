/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many connections, many requests in each, large requests, and clients that vanish in the middle of
 * a request. The server must also run as its row says.
 */
#include "tests/nbd/client.h"
#include "tests/nbd/crew.h"
#include "tests/nbd/pattern.h"
#include "tests/nbd/rng.h"
#include "tests/nbd/scratch.h"
#include "tests/nbd/target.h"

#include "common/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define FILE_PATTERN 1
#define NEW_PATTERN  2

static const char *const default_export[] = {""};

START_TEST(server_says_which_engine_and_which_kind_of_io_it_uses)
{
	const char *path = scratch_image("disk.img", MIB, FILE_PATTERN);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *client = client_connect(server, "");
	char engine[64];

	snprintf(engine, sizeof(engine), "engine %s,", TARGET->engine);
	server_expect_log(server, engine, TARGET->direct_io ? "direct I/O on (" : "direct I/O off");
	server_expect_log(server, "polling ", TARGET->poll ? "on" : "off");
	server_expect_log(server, "disk.img: 1048576 bytes", "writable");
	client_close(client);
	server_stop(server);
}
END_TEST

/* Sends requests of every kind, none of which may be served in another way than the row's. */
START_TEST(page_cache_holds_nothing_of_the_image_unless_it_is_kept)
{
	const uint64_t size = 16 * MIB;
	const char *path = scratch_image("disk.img", size, FILE_PATTERN);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *client = client_connect(server, "");
	uint64_t cached;

	scratch_uncache(path);
	ck_assert_uint_eq(scratch_cached(path), 0);
	client_expect(client, 0, size, FILE_PATTERN);
	client_expect(client, 700, 100, FILE_PATTERN);
	client_expect(client, MIB + 1, MIB, FILE_PATTERN);
	client_write(client, 2 * MIB, MIB, NEW_PATTERN, 0);
	client_write(client, 4 * MIB + 100, 100000, NEW_PATTERN, 0);
	client_write(client, 5 * MIB + 10, 20, NEW_PATTERN, LIBNBD_CMD_FLAG_FUA);
	client_flush(client);
	cached = scratch_cached(path);
	for (unsigned int i = 0; TARGET->drop && cached && i < 500; i++) {
		nanosleep(&(struct timespec){.tv_nsec = 20000000L}, NULL);
		cached = scratch_cached(path);
	}
	if (TARGET->direct_io || TARGET->drop)
		ck_assert_uint_eq(cached, 0);
	else
		ck_assert_uint_ge(cached, size / 2);
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(cache_request_fills_the_page_cache_and_is_not_offered_without_one)
{
	const char *path = scratch_image("disk.img", 16 * MIB, FILE_PATTERN);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *client = client_connect(server, "");

	scratch_uncache(path);
	ck_assert_int_eq(nbd_can_cache(client), !TARGET->direct_io && !TARGET->drop);
	if (!TARGET->direct_io && !TARGET->drop) {
		client_done_at(__FILE__, __LINE__, nbd_cache(client, 65536, 8 * MIB, 0));
		client_done_at(__FILE__, __LINE__, nbd_cache(client, 1, 16 * MIB - 1, 0));
		/* The kernel reads ahead on its own time. */
		for (unsigned int i = 0; i < 200 && scratch_cached(path) < 65536; i++)
			nanosleep(&(struct timespec){.tv_nsec = 10000000L}, NULL);
		ck_assert_uint_ge(scratch_cached(path), 65536);
	}
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(several_connections_are_allowed)
{
	const char *path = scratch_image("disk.img", MIB, FILE_PATTERN);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *client = client_connect(server, "");

	ck_assert_int_eq(nbd_can_multi_conn(client), 1);
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(answered_write_is_seen_by_every_connection)
{
	const char *path = scratch_image("disk.img", 4 * MIB, FILE_PATTERN);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *one = client_connect(server, "");
	struct nbd_handle *other = client_connect(server, "");

	for (uint32_t round = 2; round < 2 + crew_rounds(148); round++) {
		uint64_t offset = round * 7001;
		uint64_t length = 1 + round * round * 37 % 200000;

		client_write(round % 2 ? one : other, offset, length, round, 0);
		client_expect(round % 2 ? other : one, offset, length, round);
		client_zero(round % 2 ? one : other, offset, length / 2 + 1, 0);
		client_expect(round % 2 ? other : one, offset, length / 2 + 1, PATTERN_ZEROES);
	}
	client_close(one);
	client_close(other);
	server_stop(server);
}
END_TEST

/* Each member has a MiB of its own, and checks it after each of its writes. */
static void
work_alone(struct crew_member *member)
{
	const uint64_t start = member->index * MIB;
	unsigned char *CLEANUP_FREE buffer = malloc(MIB);

	for (uint32_t round = 0; round < 30 && !crew_failed(member); round++) {
		uint64_t skip = round * 12345 % 500000;
		uint64_t length = 1 + round * 65432 % 500000;
		uint32_t pattern = 10 + member->index * 100 + round;
		ssize_t at;

		pattern_fill(buffer, length, start + skip, pattern);
		if (nbd_pwrite(member->client, buffer, length, start + skip, 0) != 0 ||
		    nbd_pread(member->client, buffer, length, start + skip, 0) != 0) {
			crew_fail(member, "%s", nbd_get_error());
			return;
		}
		at = pattern_mismatch(buffer, length, start + skip, pattern);
		if (at >= 0)
			crew_fail(member, "round %u: wrong byte at offset %llu", round,
				  (unsigned long long)(start + skip) + (unsigned long long)at);
	}
}

START_TEST(sixteen_connections_work_at_once)
{
	const char *path = scratch_image("disk.img", 20 * MIB, FILE_PATTERN);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});

	crew_run(server, default_export, 1, 16, work_alone, NULL, 0);
	server_stop(server);
	scratch_expect(path, 16 * MIB, 4 * MIB, FILE_PATTERN);
}
END_TEST

START_TEST(a_hundred_connections_one_after_another_work)
{
	const char *path = scratch_image("disk.img", 4 * MIB, FILE_PATTERN);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	const uint64_t connections = crew_rounds(100), written = connections * 1000;

	for (uint64_t i = 0; i < connections; i++) {
		struct nbd_handle *client = client_connect(server, "");

		client_write(client, i * 1000, 1000, NEW_PATTERN, 0);
		client_close(client);
	}
	server_stop(server);
	scratch_expect(path, 0, written, NEW_PATTERN);
	scratch_expect(path, written, 4 * MIB - written, FILE_PATTERN);
}
END_TEST

#define REQUESTS 64

struct request {
	unsigned char *buffer;
	uint64_t offset, length;
	bool failed;
};

static int
request_done(void *data, int *error)
{
	struct request *request = data;

	request->failed = *error != 0;
	return 1;
}

/* Sends all requests before it waits for any. */
static void
submit_all(struct nbd_handle *client, struct request *requests, bool write)
{
	for (unsigned int i = 0; i < REQUESTS; i++) {
		struct request *request = &requests[i];
		nbd_completion_callback done = {.callback = request_done, .user_data = request};
		int64_t cookie = write ? nbd_aio_pwrite(client, request->buffer, request->length,
							request->offset, done, 0)
				       : nbd_aio_pread(client, request->buffer, request->length,
						       request->offset, done, 0);

		ck_assert_msg(cookie > 0, "%s", nbd_get_error());
	}
	while (nbd_aio_in_flight(client) > 0)
		ck_assert_msg(nbd_poll(client, -1) >= 0, "%s", nbd_get_error());
	for (unsigned int i = 0; i < REQUESTS; i++)
		ck_assert_msg(!requests[i].failed, "request %u failed", i);
}

START_TEST(sixty_four_requests_in_flight_on_one_connection_keep_apart)
{
	const uint64_t size = 40 * MIB;
	const char *path = scratch_image("disk.img", size, FILE_PATTERN);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *client = client_connect(server, "");
	struct request requests[REQUESTS] = {0};
	uint64_t offset = 333, seed = rng_seed();
	struct rng rng;

	rng_init(&rng, seed, 0);
	for (unsigned int i = 0; i < REQUESTS; i++) {
		struct request *request = &requests[i];

		/* The requests are adjacent, so that neighbours share blocks. */
		*request = (struct request){.offset = offset, .length = rng_length(&rng, 600000)};
		offset += request->length;
		request->buffer = malloc(request->length);
		pattern_fill(request->buffer, request->length, request->offset, NEW_PATTERN);
	}
	submit_all(client, requests, true);
	for (unsigned int i = 0; i < REQUESTS; i++)
		pattern_fill(requests[i].buffer, requests[i].length, 0, FILE_PATTERN);
	submit_all(client, requests, false);
	for (unsigned int i = 0; i < REQUESTS; i++) {
		ck_assert_msg(pattern_mismatch(requests[i].buffer, requests[i].length,
					       requests[i].offset, NEW_PATTERN) < 0,
			      "request %u of LOOP_SEED=%llu", i, (unsigned long long)seed);
		free(requests[i].buffer);
	}
	client_close(client);
	server_stop(server);
	scratch_expect(path, 0, 333, FILE_PATTERN);
	scratch_expect(path, 333, offset - 333, NEW_PATTERN);
	scratch_expect(path, offset, size - offset, FILE_PATTERN);
}
END_TEST

START_TEST(requests_of_32_mib_work_aligned_and_not)
{
	static const uint64_t offsets[] = {MIB + 1, 512, 0, 4095, 3 * MIB - 100};
	const uint64_t size = 36 * MIB, length = 32 * MIB;
	const char *path = scratch_image("disk.img", size, FILE_PATTERN);
	struct server *server =
		server_start(TARGET, &(struct server_config){.file = path, .threads = 2});
	struct nbd_handle *client = client_connect(server, "");

	for (uint32_t i = 0; i < 1 + crew_rounds(4); i++) {
		client_write(client, offsets[i], length, NEW_PATTERN + i, 0);
		client_expect(client, offsets[i], length, NEW_PATTERN + i);
		client_expect(client, 0, offsets[i], FILE_PATTERN);
		client_expect(client, offsets[i] + length, size - offsets[i] - length,
			      FILE_PATTERN);
		client_write(client, 0, 4 * MIB, FILE_PATTERN, 0);
		client_write(client, 32 * MIB, 4 * MIB, FILE_PATTERN, 0);
	}
	client_close(client);
	server_stop(server);
}
END_TEST

/* Sends the header and some of the data, then closes the connection. */
static void
vanish_in_a_write(const struct server *server, uint64_t offset, uint64_t length)
{
	struct nbd_handle *client = client_connect(server, "");
	unsigned char *CLEANUP_FREE buffer = malloc(length);

	pattern_fill(buffer, length, offset, NEW_PATTERN);
	ck_assert_msg(nbd_aio_pwrite(client, buffer, length, offset, NBD_NULL_COMPLETION, 0) > 0,
		      "%s", nbd_get_error());
	/* The socket took as much as it can hold. */
	ck_assert_int_eq(nbd_aio_in_flight(client), 1);
	nbd_close(client);
}

START_TEST(client_that_vanishes_in_a_write_harms_nobody)
{
	const char *path = scratch_image("disk.img", 40 * MIB, FILE_PATTERN);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *witness = client_connect(server, "");

	for (uint64_t i = 0; i < crew_rounds(10); i++) {
		vanish_in_a_write(server, 4 * MIB + 100, 32 * MIB);
		/* Whatever happened to the write, it changed nothing outside of its range. */
		client_expect(witness, 0, 4 * MIB + 100, FILE_PATTERN);
		client_expect(witness, 36 * MIB + 100, 4 * MIB - 100, FILE_PATTERN);
		client_write(witness, i * 1000, 1000, FILE_PATTERN, 0);
	}
	client_close(witness);
	witness = client_connect(server, "");
	client_write(witness, 4 * MIB + 100, 32 * MIB, NEW_PATTERN, 0);
	client_expect(witness, 4 * MIB + 100, 32 * MIB, NEW_PATTERN);
	client_close(witness);
	server_stop(server);
}
END_TEST

static void
add_tests(TCase *tests, int row)
{
	target_add_test(tests, server_says_which_engine_and_which_kind_of_io_it_uses, row);
	target_add_file_test(tests, page_cache_holds_nothing_of_the_image_unless_it_is_kept, row);
	target_add_file_test(
		tests, cache_request_fills_the_page_cache_and_is_not_offered_without_one, row);
	target_add_test(tests, several_connections_are_allowed, row);
	target_add_test(tests, answered_write_is_seen_by_every_connection, row);
	target_add_test(tests, sixteen_connections_work_at_once, row);
	target_add_test(tests, a_hundred_connections_one_after_another_work, row);
	target_add_test(tests, sixty_four_requests_in_flight_on_one_connection_keep_apart, row);
	target_add_test(tests, requests_of_32_mib_work_aligned_and_not, row);
	target_add_test(tests, client_that_vanishes_in_a_write_harms_nobody, row);
}

int
main(void)
{
	return target_main("connections", add_tests, 0);
}
