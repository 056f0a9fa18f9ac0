/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Early data: the first part of a large read's reply comes while the disk still holds the rest, and
 * only where the protocol has a way to report a failure after it.
 */
#include "server/connection/dispatch.h"

#include "nbd/wire.h"
#include "tests/lib/suite.h"
#include "tests/unit/server/nbd_client.h"
#include "tests/unit/server/one_worker.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READ       (1u << 20)
#define LARGE_READ (16u << 20)

static struct client client;

struct reply_chunk {
	uint16_t flags, type;
	uint64_t offset;
	uint32_t length; /* of the data */
	uint32_t error;
};

/* A client that reads the whole disk once; the disk holds all chunks of that read. */
static void
begin_reading(int way, bool tcp, bool structured, uint16_t flags, uint32_t length)
{
	const unsigned int chunks = length / CHUNK_SIZE;
	const struct fake_facts facts = {.align = 512, .file_size = length, .depth = chunks};

	worker_begin(way, &facts);
	if (tcp)
		client_connect_tcp(&client);
	else
		client_connect(&client);
	client_say_handshake(&client, structured);
	client_send(&client);
	client_take_handshake(&client, structured);
	disk.fake.held = 1u << CHUNK_READ;
	client_say_request(&client, NBD_CMD_READ, flags, 7, 0, length);
	client_send(&client);
	ck_assert_uint_eq(fake_in_flight(&disk.fake, chunks), chunks);
}

static void
begin(int way, bool tcp, bool structured, uint16_t flags)
{
	begin_reading(way, tcp, structured, flags, READ);
}

static void
end(void)
{
	client_close(&client);
	worker_await_closed(1);
	worker_finish();
}

static void
release(unsigned int first, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		fake_release(&disk.fake, first + i);
}

/* The next chunk of the reply; its data are the disk's. */
static struct reply_chunk
take_chunk(void)
{
	uint8_t header[NBD_STRUCTURED_REPLY_SIZE], field[8];
	struct reply_chunk chunk = {0};
	unsigned char *data;

	client_take(&client, header, sizeof(header));
	ck_assert_uint_eq(wire_load32(header), NBD_STRUCTURED_REPLY_MAGIC);
	chunk.flags = wire_load16(header + 4);
	chunk.type = wire_load16(header + 6);
	ck_assert_uint_eq(wire_load64(header + 8), 7);
	if (chunk.type == NBD_REPLY_TYPE_ERROR) {
		client_take(&client, field, 6);
		chunk.error = wire_load32(field);
		return chunk;
	}
	ck_assert_uint_eq(chunk.type, NBD_REPLY_TYPE_OFFSET_DATA);
	client_take(&client, field, 8);
	chunk.offset = wire_load64(field);
	chunk.length = wire_load32(header + 16) - 8;
	ck_assert_uint_le(chunk.offset + chunk.length, READ);
	data = malloc(chunk.length);
	ck_assert_ptr_nonnull(data);
	client_take(&client, data, chunk.length);
	ck_assert_mem_eq(data, fake_image_at(&disk, chunk.offset), chunk.length);
	free(data);
	return chunk;
}

/* Takes data, which follow each other from `from` on, up to `to`.  `all`: to the end of the reply.
 */
static void
expect_data(uint64_t from, uint64_t to, bool all)
{
	while (from < to) {
		struct reply_chunk chunk = take_chunk();

		ck_assert_uint_eq(chunk.offset, from);
		from += chunk.length;
		ck_assert(chunk.flags == (all && from == to ? NBD_REPLY_FLAG_DONE : 0));
	}
	ck_assert_uint_eq(from, to);
}

static void
expect_whole(void)
{
	struct reply_chunk chunk = take_chunk();

	ck_assert_uint_eq(chunk.length, READ);
	ck_assert_uint_eq(chunk.flags, NBD_REPLY_FLAG_DONE);
}

START_TEST(first_half_is_sent_while_the_disk_holds_the_second)
{
	begin(_i, true, true, 0);
	release(0, 4);
	expect_data(0, READ / 2, false);
	client_expect_silence(&client);
	fake_release_all(&disk.fake);
	expect_data(READ / 2, READ, true);
	end();
}
END_TEST

START_TEST(data_after_a_gap_wait_until_it_is_filled)
{
	begin(_i, true, true, 0);
	release(1, 4);
	client_expect_silence(&client);
	release(0, 1);
	expect_data(0, 5 * CHUNK_SIZE, false);
	release(6, 2);
	client_expect_silence(&client);
	release(5, 1);
	expect_data(5 * CHUNK_SIZE, READ, true);
	end();
}
END_TEST

START_TEST(failure_after_early_data_is_an_error_of_that_read_alone)
{
	struct reply_chunk chunk;

	begin(_i, true, true, 0);
	release(0, 4);
	expect_data(0, READ / 2, false);
	disk.fake.held = 0;
	fake_fault(&disk.fake, CHUNK_READ, 0, 1, -EIO);
	fake_release_all(&disk.fake);
	do
		chunk = take_chunk();
	while (chunk.type == NBD_REPLY_TYPE_OFFSET_DATA && !chunk.flags);
	ck_assert_uint_eq(chunk.type, NBD_REPLY_TYPE_ERROR);
	ck_assert_uint_eq(chunk.flags, NBD_REPLY_FLAG_DONE);
	ck_assert_uint_eq(chunk.error, NBD_EIO);
	client_say_request(&client, NBD_CMD_READ, 0, 7, 0, READ);
	client_send(&client);
	expect_data(0, READ, true);
	end();
}
END_TEST

START_TEST(reply_that_may_not_be_split_waits_for_all_data)
{
	begin(_i, true, true, NBD_CMD_FLAG_DF);
	release(0, 7);
	client_expect_silence(&client);
	fake_release_all(&disk.fake);
	expect_whole();
	end();
}
END_TEST

START_TEST(simple_reply_waits_for_all_data)
{
	begin(_i, true, false, 0);
	release(0, 7);
	client_expect_silence(&client);
	fake_release_all(&disk.fake);
	client_expect_read(&client, 7, 0, READ);
	end();
}
END_TEST

START_TEST(reply_to_this_machine_waits_for_all_data)
{
	begin(_i, false, true, 0);
	release(0, 7);
	client_expect_silence(&client);
	fake_release_all(&disk.fake);
	expect_whole();
	end();
}
END_TEST

/* So many bytes are there that the socket does not take all of them: a send is in flight when the
 * connection is lost, and still when the read ends. */
START_TEST(lost_connection_leaves_nothing_of_early_data)
{
	const unsigned int count = LARGE_READ / CHUNK_SIZE;

	begin_reading(_i, true, true, 0, LARGE_READ);
	release(0, count - 1);
	worker_catch_up();
	/* Half of a request, and no more. */
	client_say_request(&client, NBD_CMD_FLUSH, 0, 8, 0, 0);
	client_send_part(&client, 10);
	client.length = 0;
	ck_assert_int_eq(shutdown(client.fd, SHUT_WR), 0);
	worker_catch_up();
	ck_assert_uint_eq(worker_requests(), 1);
	fake_release_all(&disk.fake);
	worker_await_closed(1);
	client_close(&client);
	worker_finish();
}
END_TEST

int
main(void)
{
	const int count = worker_ways();
	const struct suite_row cases[] = {
		{.name = "early", .begin = worker_prepare},
		{.test = first_half_is_sent_while_the_disk_holds_the_second, .last = count},
		{.test = data_after_a_gap_wait_until_it_is_filled, .last = count},
		{.test = failure_after_early_data_is_an_error_of_that_read_alone, .last = count},
		{.test = reply_that_may_not_be_split_waits_for_all_data, .last = count},
		{.test = simple_reply_waits_for_all_data, .last = count},
		{.test = reply_to_this_machine_waits_for_all_data, .last = count},
		{.test = lost_connection_leaves_nothing_of_early_data, .last = count},
		{0},
	};

	return suite_run("early", cases);
}
