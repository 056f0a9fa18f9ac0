/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a worker does with requests, from the engine's operation to the reply: durability, errors of
 * merged requests, the order of overlapping changes, and changes whose client is gone.
 */
#include "server/connection/dispatch.h"

#include "nbd/wire.h"
#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/server/nbd_client.h"
#include "tests/unit/server/one_worker.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#define KIB  1024u
#define PAGE 4096u

/* Longer than a client is taken to be there without being asked for (server/connection/peer.c). */
#define ABSENCE_MS 110

static const struct fake_facts direct = {.align = 512}, buffered = {.align = 0};
static struct client client, other;
static int ways;

static void
begin(int way, const struct fake_facts *facts)
{
	worker_begin(way, facts);
	client_join(&client);
}

static void
end(void)
{
	client_close(&client);
	worker_await_closed(1);
	worker_finish();
}

/* Replies to requests 0 ... count - 1 in any order, with these errors. */
static void
expect_all(struct client *from, unsigned int count, const uint32_t *errors)
{
	unsigned int seen = 0;

	for (unsigned int i = 0; i < count; i++) {
		uint64_t cookie;
		uint32_t error = client_take_reply(from, &cookie);

		ck_assert_uint_lt(cookie, count);
		ck_assert_msg(!(seen & 1u << cookie), "request %u has two replies",
			      (unsigned int)cookie);
		seen |= 1u << cookie;
		ck_assert_msg(error == (errors ? errors[cookie] : 0), "request %u: error %u",
			      (unsigned int)cookie, error);
	}
}

/* ---- durability */

START_TEST(fua_write_is_answered_after_its_sync)
{
	begin(_i, &buffered);
	disk.fake.held = 1u << CHUNK_SYNC;
	client_say_write(&client, NBD_CMD_FLAG_FUA, 1, 0, PAGE, 1, true);
	client_send(&client);
	fake_await(&disk.fake, CHUNK_SYNC);
	client_expect_silence(&client);
	fake_release_all(&disk.fake);
	client_expect(&client, 1, 0);
	end();
}
END_TEST

START_TEST(fua_of_each_kind_of_change_is_kept)
{
	begin(_i, &direct);
	client_say_write(&client, NBD_CMD_FLAG_FUA, 0, 0, PAGE, 1, true);
	client_send(&client);
	client_expect(&client, 0, 0);
	ck_assert(fake_look(&disk.fake, 0).dsync);
	client_say_request(&client, NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_FUA, 1, PAGE, PAGE);
	client_send(&client);
	client_expect(&client, 1, 0);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_SYNC), 1);
	client_say_request(&client, NBD_CMD_TRIM, NBD_CMD_FLAG_FUA, 2, 2 * PAGE, PAGE);
	client_send(&client);
	client_expect(&client, 2, 0);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_SYNC), 2);
	memset(fake_image_at(&disk, PAGE), 0, 2 * PAGE);
	end();
}
END_TEST

START_TEST(failed_flush_is_an_error)
{
	begin(_i, &direct);
	fake_fault(&disk.fake, CHUNK_SYNC, 0, 1, -EIO);
	client_say_request(&client, NBD_CMD_FLUSH, 0, 1, 0, 0);
	client_send(&client);
	client_expect(&client, 1, NBD_EIO);
	end();
}
END_TEST

START_TEST(short_read_is_an_error_and_not_padded)
{
	begin(_i, &direct);
	fake_fault(&disk.fake, CHUNK_READ, 0, 1, 0);
	client_say_request(&client, NBD_CMD_READ, 0, 1, 0, PAGE);
	client_send(&client);
	client_expect(&client, 1, NBD_EIO);
	client_say_request(&client, NBD_CMD_READ, 0, 2, 2 * PAGE, PAGE);
	client_send(&client);
	client_expect_read(&client, 2, 2 * PAGE, PAGE);
	end();
}
END_TEST

/* ---- kinds of zeroing */

static const struct zeroing {
	uint16_t type, flags;
	int mode; /* what it must become; -1: anything but a hole */
} zeroings[] = {
	{NBD_CMD_TRIM, 0, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE},
	{NBD_CMD_WRITE_ZEROES, 0, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE},
	{NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE, -1},
};

/* A client that asks for no holes has reserved the space: a write must not fail there later. */
START_TEST(zeroes_make_holes_only_where_they_may)
{
	begin(WAY_EPOLL, &direct);
	client_say_request(&client, zeroings[_i].type, zeroings[_i].flags, 1, PAGE, 2 * PAGE);
	client_send(&client);
	client_expect(&client, 1, 0);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_ALLOCATE), 1);
	if (zeroings[_i].mode == -1)
		ck_assert_int_eq(fake_look(&disk.fake, 0).mode & FALLOC_FL_PUNCH_HOLE, 0);
	else
		ck_assert_int_eq(fake_look(&disk.fake, 0).mode, zeroings[_i].mode);
	memset(fake_image_at(&disk, PAGE), 0, 2 * PAGE);
	end();
}
END_TEST

/* The client would rather write zeroes itself than wait. */
START_TEST(fast_zeroes_that_would_be_written_are_refused)
{
	begin(_i, &direct);
	fake_fault(&disk.fake, CHUNK_ALLOCATE, 0, 4, -EOPNOTSUPP);
	client_say_request(&client, NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_FAST_ZERO, 1, PAGE, PAGE);
	client_send(&client);
	client_expect(&client, 1, NBD_ENOTSUP);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_WRITE), 0);
	end();
}
END_TEST

/* ---- errors of merged requests */

static void
say_merged(uint16_t flags, unsigned int count, unsigned int failing)
{
	for (unsigned int i = 0; i < count; i++)
		client_say_write(&client, flags, i, (4 + i) * PAGE, PAGE, 20 + i, i != failing);
	client_send(&client);
}

START_TEST(error_of_a_merged_write_is_only_its_own)
{
	const uint32_t errors[] = {0, NBD_EIO, 0};

	begin(_i, &direct);
	/* All three, then the second of them. */
	fake_fault(&disk.fake, CHUNK_WRITE, 0, 1, -EIO);
	fake_fault(&disk.fake, CHUNK_WRITE, 1, 1, -EIO);
	say_merged(0, 3, 1);
	expect_all(&client, 3, errors);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_WRITE), 4);
	end();
}
END_TEST

START_TEST(error_of_a_merged_read_is_only_its_own)
{
	begin(_i, &direct);
	fake_fault(&disk.fake, CHUNK_READ, 0, 1, -EIO);
	fake_fault(&disk.fake, CHUNK_READ, 0, 1, -EIO);
	client_say_request(&client, NBD_CMD_READ, 0, 0, 0, PAGE);
	client_say_request(&client, NBD_CMD_READ, 0, 1, PAGE, PAGE);
	client_send(&client);
	client_expect(&client, 0, NBD_EIO);
	client_expect_read(&client, 1, PAGE, PAGE);
	end();
}
END_TEST

/* The bytes are there, and somebody may have written newer ones: only the sync failed. */
START_TEST(merged_writes_whose_sync_failed_are_not_written_again)
{
	const uint32_t errors[] = {NBD_EIO, NBD_EIO, NBD_EIO};

	begin(_i, &buffered);
	fake_fault(&disk.fake, CHUNK_SYNC, 0, 1, -EIO);
	say_merged(NBD_CMD_FLAG_FUA, 3, 3);
	expect_all(&client, 3, errors);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_WRITE), 1);
	end();
}
END_TEST

/* Two members can share a block, which each of them reads, changes and writes back. */
START_TEST(members_that_share_a_block_are_tried_one_after_the_other)
{
	begin(_i, &direct);
	fake_fault(&disk.fake, CHUNK_WRITE, 0, 1, -EIO);
	disk.fake.order = FAKE_LAST_COME;
	for (unsigned int i = 0; i < 4; i++)
		client_say_write(&client, 0, i, PAGE + 100 * i, 100, 30 + i, true);
	client_send(&client);
	expect_all(&client, 4, NULL);
	end();
}
END_TEST

START_TEST(newer_write_waits_until_all_of_a_merged_one_were_tried_again)
{
	begin(_i, &direct);
	client_join(&other);
	fake_fault(&disk.fake, CHUNK_WRITE, 0, 1, -EIO);
	disk.fake.held = 1u << CHUNK_WRITE;
	say_merged(0, 3, 3);
	fake_in_flight(&disk.fake, 1);
	client_say_write(&other, 0, 0, 4 * PAGE, 3 * PAGE, 40, true);
	client_send(&other);
	worker_await_requests(4);
	fake_release_all(&disk.fake);
	expect_all(&client, 3, NULL);
	expect_all(&other, 1, NULL);
	ck_assert_uint_eq(fake_look(&disk.fake, 4).length, 3 * PAGE);
	client_close(&other);
	worker_await_closed(1);
	client_close(&client);
	worker_await_closed(2);
	worker_finish();
}
END_TEST

/* ---- the order of changes */

START_TEST(overlapping_changes_land_in_the_order_of_their_requests)
{
	begin(_i % ways, &direct);
	disk.fake.order = _i < ways ? FAKE_LAST_COME : FAKE_RANDOM;
	disk.fake.random += (unsigned int)_i;
	for (unsigned int i = 0; i < 24; i++) {
		uint64_t offset = (i * 5 % 7) * 512;

		if (i % 6 == 5) {
			client_say_request(&client, NBD_CMD_WRITE_ZEROES, 0, i, offset, 1024);
			memset(fake_image_at(&disk, offset), 0, 1024);
		} else {
			client_say_write(&client, 0, i, offset, 512 + i % 3 * 700, 50 + i, true);
		}
	}
	client_send(&client);
	expect_all(&client, 24, NULL);
	end();
}
END_TEST

/* ---- clients that are gone */

/* The holder's write is with the disk, and the waiter's, which overlaps, waits for it; `last` says
 * that it is the waiter's last.  Then the waiter closes its socket. */
static void
leave_waiting_write(struct client *holder, struct client *waiter, bool last, bool lands)
{
	disk.fake.held = 1u << CHUNK_WRITE;
	client_say_write(holder, 0, 1, 0, PAGE, 1, true);
	client_send(holder);
	fake_in_flight(&disk.fake, 1);
	client_say_write(waiter, 0, 2, 512, PAGE, 2, lands);
	if (last)
		client_say_request(waiter, NBD_CMD_DISC, 0, 3, 0, 0);
	client_send(waiter);
	worker_await_requests(2);
	client_close(waiter);
	poll(NULL, 0, ABSENCE_MS);
	fake_release_all(&disk.fake);
}

static void
begin_two(int way)
{
	begin(way, &direct);
	client_join(&other);
}

static void
end_other(void)
{
	worker_await_closed(1);
	client_close(&other);
	worker_await_closed(2);
	worker_finish();
}

/* It may have sent the same write again over another connection, and then a newer one. */
START_TEST(write_that_waited_for_a_vanished_client_is_dropped)
{
	begin_two(_i);
	leave_waiting_write(&other, &client, false, false);
	client_expect(&other, 1, 0);
	end_other();
}
END_TEST

START_TEST(write_of_a_client_that_takes_no_answer_is_dropped)
{
	begin_two(_i);
	leave_waiting_write(&client, &client, false, false);
	end_other();
}
END_TEST

START_TEST(write_before_a_disconnect_is_carried_out_though_the_client_left)
{
	begin_two(_i);
	leave_waiting_write(&client, &client, true, true);
	end_other();
}
END_TEST

/* They may be the same client, which came back: its newer bytes could be overwritten. */
START_TEST(write_before_a_disconnect_is_dropped_when_others_have_written_since)
{
	begin_two(_i);
	leave_waiting_write(&other, &client, true, false);
	client_expect(&other, 1, 0);
	end_other();
}
END_TEST

START_TEST(half_a_write_of_a_vanished_client_is_not_written)
{
	begin(_i, &direct);
	client_say_write(&client, 0, 1, 0, 256 * KIB, 1, false);
	client_send_part(&client, 200 * KIB);
	worker_await_requests(1);
	end();
}
END_TEST

int
main(void)
{
	const int count = worker_ways();
	const struct suite_row cases[] = {
		{.name = "durability", .begin = worker_prepare},
		{.test = fua_write_is_answered_after_its_sync, .last = count},
		{.test = fua_of_each_kind_of_change_is_kept, .last = count},
		{.test = failed_flush_is_an_error, .last = count},
		{.test = short_read_is_an_error_and_not_padded, .last = count},

		{.name = "zeroes", .begin = worker_prepare},
		{.test = zeroes_make_holes_only_where_they_may,
		 .last = sizeof(zeroings) / sizeof(zeroings[0])},
		{.test = fast_zeroes_that_would_be_written_are_refused, .last = count},

		{.name = "merged", .begin = worker_prepare},
		{.test = error_of_a_merged_write_is_only_its_own, .last = count},
		{.test = error_of_a_merged_read_is_only_its_own, .last = count},
		{.test = merged_writes_whose_sync_failed_are_not_written_again, .last = count},
		{.test = members_that_share_a_block_are_tried_one_after_the_other, .last = count},
		{.test = newer_write_waits_until_all_of_a_merged_one_were_tried_again,
		 .last = count},

		{.name = "order", .begin = worker_prepare},
		{.test = overlapping_changes_land_in_the_order_of_their_requests,
		 .last = count * 4},

		{.name = "gone", .begin = worker_prepare},
		{.test = write_that_waited_for_a_vanished_client_is_dropped, .last = count},
		{.test = write_of_a_client_that_takes_no_answer_is_dropped},
		{.test = write_before_a_disconnect_is_carried_out_though_the_client_left},
		{.test = write_before_a_disconnect_is_dropped_when_others_have_written_since},
		{.test = half_a_write_of_a_vanished_client_is_not_written, .last = count},
		{0},
	};

	ways = count;
	return suite_run("requests", cases);
}
