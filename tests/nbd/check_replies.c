/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Structured and simple replies carry the same data. A request that a server doesn't offer, or that
 * no standard knows, is refused with the error that the protocol names, and the connection stays
 * usable.
 */
#include "tests/nbd/client.h"
#include "tests/nbd/crew.h"
#include "tests/nbd/pattern.h"
#include "tests/nbd/scratch.h"
#include "tests/nbd/target.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE    (8 * MIB)
#define PATTERN 1

static char buffer[MIB];

/* A client that sends any request, with or without structured replies. */
static struct nbd_handle *
connect_in_form(const struct server *server, bool structured)
{
	struct nbd_handle *client = nbd_create();

	ck_assert_int_eq(nbd_set_request_structured_replies(client, structured), 0);
	ck_assert_msg(client_reach(client, server) == 0, "%s", nbd_get_error());
	ck_assert_int_eq(nbd_get_structured_replies_negotiated(client), structured);
	client_send_anything(client);
	return client;
}

/* The chunks of one read. */
struct chunks {
	const char *start;
	uint64_t offset;
	uint64_t bytes;
	unsigned int count;
	bool seen[SIZE / 512]; /* sectors that a chunk has covered */
};

static int
take_chunk(void *data, const void *bytes, size_t count, uint64_t offset, unsigned int status,
	   int *error)
{
	struct chunks *chunks = data;

	ck_assert_int_eq(*error, 0);
	ck_assert(status == LIBNBD_READ_DATA || status == LIBNBD_READ_HOLE);
	ck_assert_ptr_eq(bytes, chunks->start + (offset - chunks->offset));
	ck_assert_uint_eq(offset % 512, 0);
	ck_assert_uint_eq(count % 512, 0);
	for (uint64_t i = offset / 512; i < (offset + count) / 512; i++) {
		ck_assert_msg(!chunks->seen[i], "sector %llu is told twice", (unsigned long long)i);
		chunks->seen[i] = true;
	}
	chunks->bytes += count;
	chunks->count++;
	return 0;
}

static struct chunks
read_chunks(struct nbd_handle *client, char *bytes, uint64_t length, uint64_t offset,
	    uint32_t flags)
{
	struct chunks chunks = {.start = bytes, .offset = offset};

	client_done_at(__FILE__, __LINE__,
		       nbd_pread_structured(
			       client, bytes, length, offset,
			       (nbd_chunk_callback){.callback = take_chunk, .user_data = &chunks},
			       flags));
	return chunks;
}

START_TEST(chunks_of_a_read_tell_every_byte_once_data_and_holes)
{
	const char *path = scratch_sparse_image("disk.img", SIZE);
	char *CLEANUP_FREE bytes = malloc(SIZE);
	struct server *server;
	struct nbd_handle *client;
	struct chunks chunks;

	scratch_write(path, MIB, MIB, PATTERN);
	scratch_write(path, 3 * MIB, 2 * MIB, PATTERN);
	server = server_start(TARGET, &(struct server_config){.file = path});
	client = connect_in_form(server, true);
	ck_assert_int_eq(nbd_can_df(client), 1);
	for (unsigned int df = 0; df < 2; df++) {
		memset(bytes, 'x', SIZE);
		chunks = read_chunks(client, bytes, SIZE, 0, df ? LIBNBD_CMD_FLAG_DF : 0);
		ck_assert_uint_eq(chunks.bytes, SIZE);
		/* DF: don't fragment. */
		if (df)
			ck_assert_uint_eq(chunks.count, 1);
		ck_assert_int_lt(pattern_mismatch(bytes, MIB, 0, PATTERN_ZEROES), 0);
		ck_assert_int_lt(pattern_mismatch(bytes + MIB, MIB, MIB, PATTERN), 0);
		ck_assert_int_lt(pattern_mismatch(bytes + 2 * MIB, MIB, 0, PATTERN_ZEROES), 0);
		ck_assert_int_lt(pattern_mismatch(bytes + 3 * MIB, 2 * MIB, 3 * MIB, PATTERN), 0);
		ck_assert_int_lt(pattern_mismatch(bytes + 5 * MIB, 3 * MIB, 0, PATTERN_ZEROES), 0);
		chunks = read_chunks(client, bytes, MIB, MIB / 2, df ? LIBNBD_CMD_FLAG_DF : 0);
		ck_assert_uint_eq(chunks.bytes, MIB);
	}
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(failed_read_is_an_error_in_either_form_and_the_connection_goes_on)
{
	const char *path = scratch_image("disk.img", SIZE, PATTERN);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *clients[2] = {connect_in_form(server, false),
					 connect_in_form(server, true)};

	ck_assert_int_eq(truncate(path, SIZE / 2), 0);
	for (unsigned int i = 0; i < 20; i++) {
		struct nbd_handle *client = clients[i % 2];

		client_refused(nbd_pread(client, buffer, MIB, SIZE / 2, 0), EIO);
		client_refused(nbd_pread(client, buffer, 4096, SIZE, 0), EINVAL);
		client_refused(nbd_pwrite(client, buffer, 4096, SIZE, 0), ENOSPC);
		client_expect(client, 0, MIB, PATTERN);
	}
	client_close(clients[0]);
	client_close(clients[1]);
	server_stop(server);
}
END_TEST

static int
no_extent(void *data, const char *context, uint64_t offset, uint32_t *entries, size_t count,
	  int *error)
{
	(void)data;
	(void)context;
	(void)offset;
	(void)entries;
	(void)count;
	(void)error;
	ck_abort_msg("extents came that nobody may ask for");
	return 0;
}

#define NO_EXTENT ((nbd_extent_callback){.callback = no_extent})

START_TEST(command_that_is_not_offered_is_refused_in_either_form)
{
	const char *path = scratch_image("disk.img", SIZE, PATTERN);
	struct server *server = server_start(
		TARGET, &(struct server_config){.file = path, .parameters = {"discard=off"}});

	for (unsigned int structured = 0; structured < 2; structured++) {
		struct nbd_handle *client = connect_in_form(server, structured);

		ck_assert_int_eq(nbd_can_trim(client), 0);
		client_refused(nbd_trim(client, MIB, 0, 0), EINVAL);
		if (!nbd_can_cache(client))
			client_refused(nbd_cache(client, MIB, 0, 0), EINVAL);
		/* No context was selected, or none can be. */
		client_refused(nbd_block_status(client, MIB, 0, NO_EXTENT, 0), EINVAL);
		if (!structured)
			client_refused(nbd_pread(client, buffer, 512, 0, LIBNBD_CMD_FLAG_DF),
				       EINVAL);
		client_expect(client, 0, SIZE, PATTERN);
		client_close(client);
	}
	server_stop(server);
	scratch_expect(path, 0, SIZE, PATTERN);
}
END_TEST

START_TEST(flag_that_a_command_does_not_take_is_refused_and_changes_nothing)
{
	const uint32_t unknown = 1u << 15;
	const char *path = scratch_image("disk.img", SIZE, PATTERN);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *client = connect_in_form(server, true);

	client_refused(nbd_pread(client, buffer, 512, 0, unknown), EINVAL);
	client_refused(nbd_pread(client, buffer, 512, 0, LIBNBD_CMD_FLAG_NO_HOLE), EINVAL);
	client_refused(nbd_pwrite(client, buffer, MIB, 0, unknown), EINVAL);
	client_refused(nbd_pwrite(client, buffer, 512, 0, LIBNBD_CMD_FLAG_NO_HOLE), EINVAL);
	client_refused(nbd_pwrite(client, buffer, 512, 0, LIBNBD_CMD_FLAG_DF), EINVAL);
	client_refused(nbd_trim(client, 4096, 0, LIBNBD_CMD_FLAG_FAST_ZERO), EINVAL);
	client_refused(nbd_trim(client, 4096, 0, unknown), EINVAL);
	client_refused(nbd_zero(client, 4096, 0, LIBNBD_CMD_FLAG_REQ_ONE), EINVAL);
	client_refused(nbd_zero(client, 4096, 0, unknown), EINVAL);
	client_refused(nbd_flush(client, unknown), EINVAL);
	client_expect(client, 0, SIZE, PATTERN);
	client_close(client);
	server_stop(server);
	scratch_expect(path, 0, SIZE, PATTERN);
}
END_TEST

/* libnbd takes a reply to a request that it is still sending for a bug of the server, and gives
 * up. */
START_TEST(refused_write_is_answered_when_all_of_it_has_come)
{
	const uint64_t length = 16 * MIB;
	const char *path = scratch_image("disk.img", SIZE, PATTERN);
	struct server *server =
		server_start(TARGET, &(struct server_config){.file = path, .read_only = true});
	char *CLEANUP_FREE bytes = calloc(1, length);

	for (unsigned int structured = 0; structured < 2; structured++) {
		struct nbd_handle *client = connect_in_form(server, structured);

		for (unsigned int i = 0; i < crew_rounds(10); i++) {
			client_refused(nbd_pwrite(client, bytes, length - i, 0, 0), EPERM);
			client_expect(client, i * 1000, 1000, PATTERN);
		}
		client_close(client);
	}
	server_stop(server);
}
END_TEST

/* The client closes in the middle of a write that is refused anyway. */
START_TEST(client_that_vanishes_in_a_refused_write_is_forgotten)
{
	const uint64_t length = 32 * MIB;
	const char *path = scratch_image("disk.img", SIZE, PATTERN);
	struct server *server =
		server_start(TARGET, &(struct server_config){.file = path, .read_only = true});
	char *CLEANUP_FREE bytes = calloc(1, length);
	struct nbd_handle *client;

	for (unsigned int i = 0; i < crew_rounds(10); i++) {
		client = connect_in_form(server, i % 2);
		ck_assert_msg(nbd_aio_pwrite(client, bytes, length, 0, NBD_NULL_COMPLETION, 0) > 0,
			      "%s", nbd_get_error());
		nbd_close(client);
	}
	client = client_connect(server, "");
	client_expect(client, 0, SIZE, PATTERN);
	client_close(client);
	server_stop(server);
}
END_TEST

/* Other servers serve 64 MiB, and some clients count on that, whatever they are told: 32 MiB. */
START_TEST(request_of_64_mib_is_served_though_half_of_it_is_advertised)
{
	const uint64_t most = 64 * MIB;
	const char *path = scratch_image("disk.img", most + 512, PATTERN);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	char *CLEANUP_FREE bytes = malloc(most);

	ck_assert_ptr_nonnull(bytes);
	for (unsigned int structured = 0; structured < 2; structured++) {
		struct nbd_handle *client = connect_in_form(server, structured);

		ck_assert_int_eq(nbd_get_block_size(client, LIBNBD_SIZE_MAXIMUM), 32 * MIB);
		client_done_at(__FILE__, __LINE__, nbd_pread(client, bytes, most, 512, 0));
		ck_assert_int_eq(pattern_mismatch(bytes, most, 512, PATTERN + structured), -1);
		pattern_fill(bytes, most, 512, PATTERN + structured + 1);
		client_done_at(__FILE__, __LINE__, nbd_pwrite(client, bytes, most, 512, 0));
		client_close(client);
	}
	server_stop(server);
	scratch_expect(path, 512, most, PATTERN + 2);
}
END_TEST

/* A server that has too little memory for more serves 32 MiB, as it tells. */
START_TEST(read_longer_than_the_maximum_is_refused)
{
	const uint64_t size = 34 * MIB, most = 32 * MIB;
	const char *path = scratch_image("disk.img", size, PATTERN);
	struct server *server = server_start(
		TARGET, &(struct server_config){.file = path, .parameters = {"memory=32M"}});
	char *CLEANUP_FREE bytes = malloc(size);

	for (unsigned int structured = 0; structured < 2; structured++) {
		struct nbd_handle *client = connect_in_form(server, structured);

		client_refused(nbd_pread(client, bytes, most + 1, 0, 0),
			       structured ? EOVERFLOW : EINVAL);
		client_refused(nbd_pread(client, bytes, size, 0, 0),
			       structured ? EOVERFLOW : EINVAL);
		client_expect(client, 100, most, PATTERN);
		client_close(client);
	}
	server_stop(server);
}
END_TEST

START_TEST(write_far_longer_than_the_maximum_ends_its_connection_and_no_other)
{
	const uint64_t size = 34 * MIB;
	const char *path = scratch_image("disk.img", size, PATTERN);
	struct server *server = server_start(
		TARGET, &(struct server_config){.file = path, .parameters = {"memory=32M"}});
	struct nbd_handle *witness = client_connect(server, "");
	struct nbd_handle *client = connect_in_form(server, true);
	char *CLEANUP_FREE bytes = calloc(1, size);

	ck_assert_int_ne(nbd_pwrite(client, bytes, size, 0, 0), 0);
	nbd_close(client);
	server_expect_log(server, "disconnected", "far too long");
	client_expect(witness, 0, size, PATTERN);
	client_close(witness);
	server_stop(server);
	scratch_expect(path, 0, size, PATTERN);
}
END_TEST

static void
add_tests(TCase *tests, int row)
{
	target_add_test(tests, chunks_of_a_read_tell_every_byte_once_data_and_holes, row);
	target_add_file_test(
		tests, failed_read_is_an_error_in_either_form_and_the_connection_goes_on, row);
	target_add_test(tests, command_that_is_not_offered_is_refused_in_either_form, row);
	target_add_test(tests, flag_that_a_command_does_not_take_is_refused_and_changes_nothing,
			row);
	target_add_test(tests, refused_write_is_answered_when_all_of_it_has_come, row);
	target_add_test(tests, client_that_vanishes_in_a_refused_write_is_forgotten, row);
	target_add_test(tests, request_of_64_mib_is_served_though_half_of_it_is_advertised, row);
	target_add_test_of(TARGET_NBDLOOPD, tests, read_longer_than_the_maximum_is_refused, row);
	target_add_test_of(TARGET_NBDLOOPD, tests,
			   write_far_longer_than_the_maximum_ends_its_connection_and_no_other, row);
}

int
main(void)
{
	return target_main("replies", add_tests, 0);
}
