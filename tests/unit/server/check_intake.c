/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a worker takes requests from the bytes of a connection: which of them it merges, what it
 * refuses, and how it goes on after requests that came in pieces or were too many.
 */
#include "server/connection/intake.h"

#include "server/connection/conn.h"

#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/server/nbd_client.h"
#include "tests/unit/server/one_worker.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#define KIB  1024u
#define PAGE 4096u

static const struct fake_facts direct = {.align = 512};
static struct client client;

static void
begin(int way)
{
	worker_begin(way, &direct);
	client_join(&client);
}

static void
end(void)
{
	client_say_request(&client, NBD_CMD_DISC, 0, 0, 0, 0);
	client_send(&client);
	client_expect_end(&client);
	client_close(&client);
	worker_finish();
}

/* The n-th chunk that the disk got. */
static void
assert_chunk(unsigned int n, enum chunk_op op, uint64_t offset, uint64_t length)
{
	struct fake_event event = fake_look(&disk.fake, n);

	ck_assert_int_eq(event.op, op);
	ck_assert_uint_eq(event.offset, offset);
	ck_assert_uint_eq(event.length, length);
}

/* ---- merging */

START_TEST(adjacent_writes_of_a_batch_are_one_operation)
{
	begin(_i);
	for (unsigned int i = 0; i < 4; i++)
		client_say_write(&client, 0, i, (8 + i) * PAGE, PAGE, 10 + i, true);
	client_send(&client);
	for (unsigned int i = 0; i < 4; i++)
		client_expect(&client, i, 0);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_WRITE), 1);
	assert_chunk(0, CHUNK_WRITE, 8 * PAGE, 4 * PAGE);
	end();
}
END_TEST

START_TEST(each_merged_read_gets_its_own_bytes)
{
	static const unsigned int lengths[] = {512, PAGE, 1024, 3 * PAGE};
	uint64_t offset = 512;

	begin(_i);
	for (unsigned int i = 0; i < 4; i++) {
		client_say_request(&client, NBD_CMD_READ, 0, i, offset, lengths[i]);
		offset += lengths[i];
	}
	client_send(&client);
	offset = 512;
	for (unsigned int i = 0; i < 4; i++) {
		client_expect_read(&client, i, offset, lengths[i]);
		offset += lengths[i];
	}
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_READ), 1);
	end();
}
END_TEST

static void
assert_counted(unsigned int op, uint64_t requests, uint64_t bytes, uint64_t errors)
{
	struct traffic_sum sum;

	worker_traffic(&sum);
	ck_assert_uint_eq(sum.requests[op], requests);
	ck_assert_uint_eq(sum.bytes[op], bytes);
	ck_assert_uint_eq(sum.errors[op], errors);
}

START_TEST(merged_requests_are_counted_one_by_one)
{
	begin(_i);
	for (unsigned int i = 0; i < 4; i++)
		client_say_write(&client, 0, i, i * PAGE, PAGE, 10 + i, true);
	client_send(&client);
	for (unsigned int i = 0; i < 4; i++)
		client_expect(&client, i, 0);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_WRITE), 1);
	assert_counted(IO_WRITE, 4, 4 * PAGE, 0);

	fake_fault(&disk.fake, CHUNK_READ, 0, 1, -EIO);
	fake_fault(&disk.fake, CHUNK_READ, 0, 1, -EIO);
	for (unsigned int i = 0; i < 3; i++)
		client_say_request(&client, NBD_CMD_READ, 0, i, i * PAGE, PAGE);
	client_send(&client);
	client_expect(&client, 0, NBD_EIO);
	client_expect_read(&client, 1, PAGE, PAGE);
	client_expect_read(&client, 2, 2 * PAGE, PAGE);
	assert_counted(IO_READ, 3, 2 * PAGE, 1);
	assert_counted(IO_WRITE, 4, 4 * PAGE, 0);
	end();
}
END_TEST

/* A FUA write that carried others with it would cost them its sync; one without FUA that got it
 * from nobody would be lost. */
START_TEST(requests_that_differ_are_not_merged)
{
	begin(_i);
	client_say_write(&client, 0, 1, 0, PAGE, 1, true);
	client_say_write(&client, NBD_CMD_FLAG_FUA, 2, PAGE, PAGE, 2, true);
	client_say_write(&client, 0, 3, 2 * PAGE, PAGE, 3, true);
	client_say_request(&client, NBD_CMD_READ, 0, 4, 3 * PAGE, PAGE);
	client_send(&client);
	for (unsigned int i = 0; i < 4; i++) {
		uint64_t cookie;

		ck_assert_uint_eq(client_take_reply(&client, &cookie), 0);
		if (cookie == 4) {
			unsigned char bytes[PAGE];

			client_take(&client, bytes, PAGE);
			ck_assert_mem_eq(bytes, fake_image_at(&disk, 3 * PAGE), PAGE);
		}
	}
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_WRITE), 3);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_READ), 1);
	for (unsigned int i = 0; i < 4; i++) {
		struct fake_event event = fake_look(&disk.fake, i);

		ck_assert_uint_eq(event.length, PAGE);
		ck_assert_int_eq(event.dsync, event.op == CHUNK_WRITE && event.offset == PAGE);
	}
	end();
}
END_TEST

START_TEST(gap_or_step_back_ends_a_merge)
{
	begin(_i);
	client_say_request(&client, NBD_CMD_READ, 0, 0, 0, PAGE);
	client_say_request(&client, NBD_CMD_READ, 0, 1, PAGE + 512, PAGE);
	client_say_request(&client, NBD_CMD_READ, 0, 2, PAGE + 512, PAGE);
	client_send(&client);
	client_expect_read(&client, 0, 0, PAGE);
	client_expect_read(&client, 1, PAGE + 512, PAGE);
	client_expect_read(&client, 2, PAGE + 512, PAGE);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_READ), 3);
	end();
}
END_TEST

/* Replies do not wait for more than that. */
START_TEST(merge_has_128_KiB_at_most)
{
	begin(_i);
	disk.fake.held = 1u << CHUNK_READ;
	for (unsigned int i = 0; i < 33; i++)
		client_say_request(&client, NBD_CMD_READ, 0, i, i * PAGE, PAGE);
	client_send(&client);
	fake_in_flight(&disk.fake, 2);
	assert_chunk(0, CHUNK_READ, 0, 128 * KIB);
	assert_chunk(1, CHUNK_READ, 128 * KIB, PAGE);
	fake_release(&disk.fake, 0);
	for (unsigned int i = 0; i < 32; i++)
		client_expect_read(&client, i, i * PAGE, PAGE);
	fake_release_all(&disk.fake);
	client_expect_read(&client, 32, 32 * PAGE, PAGE);
	end();
}
END_TEST

/* The part of it that is there must not be written as if it were all. */
START_TEST(write_whose_data_is_still_coming_is_not_merged)
{
	begin(_i);
	client_say_write(&client, 0, 1, 0, PAGE, 1, true);
	client_say_write(&client, 0, 2, PAGE, PAGE, 2, true);
	client_send_part(&client, 2 * 28 + PAGE + 100);
	client_expect(&client, 1, 0);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_WRITE), 1);
	assert_chunk(0, CHUNK_WRITE, 0, PAGE);
	client_send(&client);
	client_expect(&client, 2, 0);
	end();
}
END_TEST

/* ---- pieces */

START_TEST(request_may_come_byte_by_byte)
{
	begin(_i);
	client_say_write(&client, 0, 1, 512, 512, 1, true);
	client_say_request(&client, NBD_CMD_READ, 0, 2, 512, 512);
	while (client.length > 0)
		client_send_part(&client, 1);
	client_expect(&client, 1, 0);
	client_expect_read(&client, 2, 512, 512);
	end();
}
END_TEST

/* 64 KiB is all that the input holds. */
START_TEST(write_larger_than_the_input_is_received_whole)
{
	begin(_i);
	client_say_write(&client, 0, 1, 512, 700 * KIB, 1, true);
	client_say_request(&client, NBD_CMD_READ, 0, 2, 1024, PAGE);
	client_send_part(&client, 28 + 11);
	client_send_part(&client, 300 * KIB);
	client_send(&client);
	for (unsigned int i = 0; i < 2; i++) {
		uint64_t cookie;

		ck_assert_uint_eq(client_take_reply(&client, &cookie), 0);
		if (cookie == 2) {
			unsigned char bytes[PAGE];

			client_take(&client, bytes, PAGE);
		}
	}
	end();
}
END_TEST

/* ---- refusals */

/* A client takes an answer to a request that it is still sending for nonsense: libnbd gives up. */
START_TEST(refusal_of_a_write_follows_its_last_byte)
{
	begin(_i);
	client_say_write(&client, 0, 1, 2048 * KIB, 512, 1, false);
	client_say_request(&client, NBD_CMD_READ, 0, 2, 0, 512);
	client_send_part(&client, 28 + 511);
	client_expect_silence(&client);
	client_send(&client);
	client_expect(&client, 1, NBD_ENOSPC);
	client_expect_read(&client, 2, 0, 512);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_WRITE), 0);
	end();
}
END_TEST

START_TEST(request_outside_of_the_image_harms_none_around_it)
{
	begin(_i);
	client_say_write(&client, 0, 1, 1020 * KIB, PAGE, 1, true);
	client_say_write(&client, 0, 2, 1024 * KIB, PAGE, 2, false);
	client_say_request(&client, NBD_CMD_READ, 0, 3, 1023 * KIB, 2 * KIB);
	client_say_request(&client, NBD_CMD_READ, 0, 4, UINT64_MAX - 511, 1024);
	client_send(&client);
	for (unsigned int i = 0; i < 4; i++) {
		uint64_t cookie;
		uint32_t error = client_take_reply(&client, &cookie);

		ck_assert_uint_eq(error, cookie == 1   ? NBD_SUCCESS
					 : cookie == 2 ? NBD_ENOSPC
						       : NBD_EINVAL);
	}
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_READ), 0);
	end();
}
END_TEST

START_TEST(read_only_image_is_not_changed)
{
	static const struct fake_facts read_only = {.align = 512, .read_only = true};

	worker_begin(_i, &read_only);
	client_join(&client);
	client_say_write(&client, 0, 1, 0, 512, 1, false);
	client_say_request(&client, NBD_CMD_TRIM, 0, 2, 0, PAGE);
	client_say_request(&client, NBD_CMD_WRITE_ZEROES, 0, 3, 0, PAGE);
	client_say_request(&client, NBD_CMD_FLUSH, 0, 4, 0, 0);
	client_send(&client);
	for (unsigned int i = 0; i < 4; i++) {
		uint64_t cookie;
		uint32_t error = client_take_reply(&client, &cookie);

		ck_assert_int_eq(error == NBD_SUCCESS, cookie == 4);
	}
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_WRITE), 0);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_ALLOCATE), 0);
	end();
}
END_TEST

START_TEST(wrong_magic_ends_the_connection)
{
	static const char nonsense[28] = "GET / HTTP/1.1";

	worker_begin(_i, &direct);
	client_join(&client);
	client_say(&client, nonsense, sizeof(nonsense));
	client_say_write(&client, 0, 1, 0, 512, 1, false);
	client_send(&client);
	client_expect_end(&client);
	client_close(&client);
	worker_finish();
}
END_TEST

/* ---- as many as there is room for */

START_TEST(requests_beyond_the_limit_wait_for_replies)
{
	const unsigned int count = CONN_REQUESTS + 44;

	begin(_i);
	disk.fake.held = 1u << CHUNK_READ;
	for (unsigned int i = 0; i < count; i++)
		client_say_request(&client, NBD_CMD_READ, 0, i, i % 2 * PAGE, 512);
	client_send(&client);
	worker_await_requests(CONN_REQUESTS);
	client_expect_silence(&client);
	ck_assert_uint_eq(worker_requests(), CONN_REQUESTS);
	fake_release_all(&disk.fake);
	for (unsigned int i = 0; i < count; i++)
		client_expect_read(&client, i, i % 2 * PAGE, 512);
	end();
}
END_TEST

/* None is refused what others will give back.  A connection that has no buffer gets a small one at
 * once, so that it never waits for a client that takes no replies; the other's read is too large.
 */
START_TEST(requests_without_memory_wait_for_it)
{
	static const struct fake_facts large = {.align = 512, .file_size = 33 << 20};
	struct client small, other;

	the_config.memory_limit = (size_t)32 << 20;
	worker_begin(_i, &large);
	client_join(&client);
	client_join(&small);
	client_join(&other);
	disk.fake.held = 1u << CHUNK_READ;
	client_say_request(&client, NBD_CMD_READ, 0, 1, 0, 32 << 20);
	client_say_request(&client, NBD_CMD_READ, 0, 2, 512, 512);
	client_send(&client);
	fake_in_flight(&disk.fake, 1);
	client_say_request(&other, NBD_CMD_READ, 0, 1, 4096 * KIB, 4096 * KIB);
	client_send(&other);
	client_say_request(&small, NBD_CMD_READ, 0, 1, PAGE, 512);
	client_say_request(&small, NBD_CMD_READ, 0, 2, 0, 512);
	client_send(&small);
	worker_await_requests(2);
	client_expect_silence(&other);
	ck_assert_uint_eq(worker_requests(), 2);
	fake_release_all(&disk.fake);
	client_expect_read(&small, 1, PAGE, 512);
	client_expect_read(&client, 1, 0, 32 << 20);
	client_expect_read(&client, 2, 512, 512);
	client_expect_read(&small, 2, 0, 512);
	client_expect_read(&other, 1, 4096 * KIB, 4096 * KIB);
	client_close(&small);
	client_close(&other);
	worker_await_closed(2);
	end();
}
END_TEST

int
main(void)
{
	const int ways = worker_ways();
	const struct suite_row cases[] = {
		{.name = "merging", .begin = worker_prepare},
		{.test = adjacent_writes_of_a_batch_are_one_operation, .last = ways},
		{.test = each_merged_read_gets_its_own_bytes, .last = ways},
		{.test = merged_requests_are_counted_one_by_one, .last = ways},
		{.test = requests_that_differ_are_not_merged, .last = ways},
		{.test = gap_or_step_back_ends_a_merge, .last = ways},
		{.test = merge_has_128_KiB_at_most, .last = ways},
		{.test = write_whose_data_is_still_coming_is_not_merged, .last = ways},

		{.name = "pieces", .begin = worker_prepare},
		{.test = request_may_come_byte_by_byte, .last = ways},
		{.test = write_larger_than_the_input_is_received_whole, .last = ways},

		{.name = "refusals", .begin = worker_prepare},
		{.test = refusal_of_a_write_follows_its_last_byte, .last = ways},
		{.test = request_outside_of_the_image_harms_none_around_it, .last = ways},
		{.test = read_only_image_is_not_changed, .last = ways},
		{.test = wrong_magic_ends_the_connection, .last = ways},

		{.name = "room", .begin = worker_prepare},
		{.test = requests_beyond_the_limit_wait_for_replies, .last = ways},
		{.test = requests_without_memory_wait_for_it, .last = ways},
		{0},
	};

	return suite_run("intake", cases);
}
