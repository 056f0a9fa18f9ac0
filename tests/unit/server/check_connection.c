/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a connection: it negotiates, serves, drains, refuses, closes and lingers; and its end
 * when the client or the server ends it in the middle of something.
 */
#include "server/connection/conn.h"

#include "nbd/wire.h"
#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/server/nbd_client.h"
#include "tests/unit/server/one_worker.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define KIB  1024u
#define PAGE 4096u

static const struct fake_facts direct = {.align = 512};
static struct client client, other;

static void
begin(int way)
{
	worker_begin(way, &direct);
	client_join(&client);
}

/* The connection has ended by itself. */
static void
end(void)
{
	worker_await_closed(1);
	client_close(&client);
	worker_finish();
}

static void
say_disconnect(void)
{
	client_say_request(&client, NBD_CMD_DISC, 0, 99, 0, 0);
}

/* A read whose data the disk keeps. */
static void
begin_read(int way)
{
	begin(way);
	disk.fake.held = 1u << CHUNK_READ;
	client_say_request(&client, NBD_CMD_READ, 0, 1, 0, PAGE);
	client_send(&client);
	fake_in_flight(&disk.fake, 1);
}

/* ---- negotiating */

START_TEST(requests_may_follow_the_handshake_at_once)
{
	worker_begin(_i, &direct);
	client_connect(&client);
	client_say_handshake(&client, false);
	client_say_write(&client, 0, 1, 0, PAGE, 1, true);
	say_disconnect();
	client_send(&client);
	client_take_handshake(&client, false);
	client_expect(&client, 1, 0);
	client_expect_end(&client);
	end();
}
END_TEST

START_TEST(handshake_may_come_byte_by_byte)
{
	worker_begin(_i, &direct);
	client_connect(&client);
	client_say_handshake(&client, true);
	while (client.length > 0)
		client_send_part(&client, 1);
	client_take_handshake(&client, true);
	say_disconnect();
	client_send(&client);
	client_expect_end(&client);
	end();
}
END_TEST

START_TEST(handshake_has_a_time_limit)
{
	the_config.handshake_limit = 0;
	worker_begin(_i, &direct);
	client_connect(&client);
	worker_await_closed(1);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "did not finish the handshake in 0 seconds"));
	end();
}
END_TEST

START_TEST(client_may_vanish_in_the_handshake)
{
	worker_begin(_i, &direct);
	client_connect(&client);
	client_say_handshake(&client, false);
	client_send_part(&client, 9);
	client_close(&client);
	worker_await_closed(1);
	worker_finish();
}
END_TEST

/* ---- the client ends it */

START_TEST(disconnect_waits_for_the_requests_before_it)
{
	begin_read(_i);
	say_disconnect();
	client_say_write(&client, 0, 2, 0, PAGE, 1, false);
	client_send(&client);
	client_expect_silence(&client);
	fake_release_all(&disk.fake);
	client_expect_read(&client, 1, 0, PAGE);
	client_expect_end(&client);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_WRITE), 0);
	end();
}
END_TEST

START_TEST(client_that_sends_no_more_gets_its_replies)
{
	begin_read(_i);
	ck_assert_int_eq(shutdown(client.fd, SHUT_WR), 0);
	client_expect_silence(&client);
	fake_release_all(&disk.fake);
	client_expect_read(&client, 1, 0, PAGE);
	client_expect_end(&client);
	end();
}
END_TEST

/* Its buffers are the worker's again, which worker_finish() sees, but not before the disk is done
 * with them. */
START_TEST(client_that_vanishes_leaves_when_the_disk_is_done)
{
	begin_read(_i);
	client_close(&client);
	client_join(&other);
	ck_assert_uint_eq(atomic_load(&the_worker.connections), 2);
	ck_assert_uint_eq(worker_requests(), 1);
	fake_release_all(&disk.fake);
	worker_await_closed(1);
	client_close(&other);
	worker_await_closed(2);
	worker_finish();
}
END_TEST

START_TEST(client_that_takes_no_replies_may_vanish)
{
	begin(_i);
	for (unsigned int i = 0; i < 8; i++)
		client_say_request(&client, NBD_CMD_READ, 0, i, 0, 1024 * KIB);
	client_send(&client);
	worker_await_requests(8);
	client_close(&client);
	worker_await_closed(1);
	worker_finish();
}
END_TEST

/* A socket takes 200 KiB at once, or less. */
START_TEST(large_replies_arrive_whole_however_slowly_they_are_taken)
{
	unsigned char *bytes = malloc(1024 * KIB);

	begin(_i);
	client_say_request(&client, NBD_CMD_READ, 0, 1, 0, 1024 * KIB);
	client_say_request(&client, NBD_CMD_READ, 0, 2, 512, 300 * KIB);
	say_disconnect();
	client_send(&client);
	for (unsigned int i = 0; i < 2; i++) {
		uint64_t cookie;
		uint32_t length;

		ck_assert_uint_eq(client_take_reply(&client, &cookie), 0);
		length = cookie == 1 ? 1024 * KIB : 300 * KIB;
		for (uint32_t taken = 0; taken < length; taken += PAGE)
			client_take(&client, bytes + taken, PAGE);
		ck_assert_mem_eq(bytes, fake_image_at(&disk, cookie == 1 ? 0 : 512), length);
	}
	client_expect_end(&client);
	end();
	free(bytes);
}
END_TEST

/* ---- the server ends it */

START_TEST(leaving_worker_answers_what_is_under_way)
{
	begin_read(_i);
	worker_stop(&the_worker, WORKER_LEAVES);
	worker_catch_up();
	client_say_write(&client, 0, 2, 0, PAGE, 1, false);
	client_send(&client);
	client_expect_silence(&client);
	fake_release_all(&disk.fake);
	client_expect_read(&client, 1, 0, PAGE);
	client_expect_end(&client);
	end();
}
END_TEST

/* What the client had sent is carried out; it cannot know of the end yet. */
START_TEST(draining_worker_carries_out_what_was_sent_and_refuses_the_rest)
{
	begin_read(_i);
	client_say_write(&client, 0, 2, 8 * PAGE, PAGE, 1, true);
	client_send(&client);
	worker_stop(&the_worker, WORKER_DRAINS);
	client_expect(&client, 2, 0);
	worker_catch_up();
	client_say_write(&client, 0, 3, 0, PAGE, 2, false);
	client_send(&client);
	client_expect(&client, 3, NBD_ESHUTDOWN);
	fake_release_all(&disk.fake);
	client_expect_read(&client, 1, 0, PAGE);
	client_expect_end(&client);
	end();
}
END_TEST

/* As many reads as there may be, which the disk keeps, and a write that waits for them in the
 * input; then the worker is told to end. */
static void
stop_before_a_write(int way, enum worker_end how, bool lands)
{
	begin(way);
	disk.fake.held = 1u << CHUNK_READ;
	for (unsigned int i = 0; i < CONN_REQUESTS; i++)
		client_say_request(&client, NBD_CMD_READ, 0, i, i % 2 * PAGE, 512);
	client_say_write(&client, 0, CONN_REQUESTS, 8 * PAGE, 512, 1, lands);
	client_send(&client);
	worker_await_requests(CONN_REQUESTS);
	worker_stop(&the_worker, how);
	worker_catch_up();
	fake_release_all(&disk.fake);
	for (unsigned int i = 0; i < CONN_REQUESTS; i++)
		client_expect_read(&client, i, i % 2 * PAGE, 512);
}

START_TEST(draining_worker_carries_out_what_has_waited)
{
	stop_before_a_write(_i, WORKER_DRAINS, true);
	client_expect(&client, CONN_REQUESTS, 0);
	client_expect_end(&client);
	end();
}
END_TEST

START_TEST(refusing_worker_carries_out_only_what_has_begun)
{
	stop_before_a_write(_i, WORKER_REFUSES, false);
	client_expect(&client, CONN_REQUESTS, NBD_ESHUTDOWN);
	client_expect_end(&client);
	end();
}
END_TEST

START_TEST(draining_worker_ends_an_idle_connection)
{
	begin(_i);
	worker_stop(&the_worker, WORKER_DRAINS);
	client_expect_end(&client);
	end();
}
END_TEST

static void
use_up_keys(struct worker *worker, struct worker_message *message)
{
	(void)message;
	worker->conns->transport.key_bytes = 1;
}

/* The kernel's client would make an I/O error of a refusal; what is not answered it sends again,
 * over another connection. */
START_TEST(used_up_keys_end_a_connection_without_refusals)
{
	struct worker_message message = {.deliver = use_up_keys};

	begin_read(_i);
	worker_post(&the_worker, &message);
	worker_catch_up();
	client_say_write(&client, 0, 2, 8 * PAGE, PAGE, 1, true);
	client_send(&client);
	client_expect(&client, 2, 0);
	worker_catch_up();
	client_say_write(&client, 0, 3, 0, PAGE, 2, false);
	client_send(&client);
	client_expect_silence(&client);
	fake_release_all(&disk.fake);
	client_expect_read(&client, 1, 0, PAGE);
	client_expect_end(&client);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "its keys have encrypted as much as is safe"));
	end();
}
END_TEST

START_TEST(aborting_worker_waits_for_the_disk_alone)
{
	begin_read(_i);
	client_say_write(&client, 0, 2, 8 * PAGE, 300 * KIB, 1, false);
	client_send_part(&client, 100 * KIB);
	worker_await_requests(2);
	worker_stop(&the_worker, WORKER_ABORTS);
	client_expect_end(&client);
	ck_assert_uint_ge(worker_requests(), 1);
	fake_release_all(&disk.fake);
	end();
}
END_TEST

START_TEST(worker_that_ends_does_not_wait_for_a_handshake)
{
	char greeting[NBD_GREETING_SIZE];

	worker_begin(_i, &direct);
	client_connect(&client);
	client_take(&client, greeting, sizeof(greeting));
	worker_stop(&the_worker, WORKER_DRAINS);
	client_expect_end(&client);
	end();
}
END_TEST

static void *
finish_worker(void *data)
{
	worker_finish();
	return data;
}

static bool
is_awaited(void)
{
	bool awaited;

	pthread_mutex_lock(&the_worker.mutex);
	awaited = the_worker.awaited;
	pthread_mutex_unlock(&the_worker.mutex);
	return awaited;
}

/* A step of a TLS handshake is such a message: a server that was told twice to end waited for ever.
 */
START_TEST(worker_that_ends_gets_the_messages_of_its_connections)
{
	pthread_t thread;

	begin_read(_i);
	worker_stop(&the_worker, WORKER_ABORTS);
	ck_assert_int_eq(pthread_create(&thread, NULL, finish_worker, NULL), 0);
	while (!is_awaited())
		sched_yield();
	worker_catch_up();
	fake_release_all(&disk.fake);
	worker_await_closed(1);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	client_close(&client);
}
END_TEST

/* ---- lingering */

/* To close a socket in which something is unread resets a TCP connection, and takes from the client
 * what it has not read yet. */
START_TEST(last_replies_over_tcp_are_not_lost_to_what_the_client_still_sends)
{
	worker_begin(_i, &direct);
	client_connect_tcp(&client);
	client_say_handshake(&client, false);
	client_send(&client);
	client_take_handshake(&client, false);
	client_say_request(&client, NBD_CMD_READ, 0, 1, 0, 32 * KIB);
	say_disconnect();
	client_say_write(&client, 0, 2, 0, 256 * KIB, 1, false);
	client_send(&client);
	poll(NULL, 0, 20);
	client_expect_read(&client, 1, 0, 32 * KIB);
	client_expect_end(&client);
	client_say_write(&client, 0, 3, 0, PAGE, 1, false);
	client_send(&client);
	ck_assert_uint_eq(atomic_load(&the_worker.connections), 1);
	client_close(&client);
	worker_await_closed(1);
	worker_finish();
}
END_TEST

int
main(void)
{
	const int ways = worker_ways();
	const struct suite_row cases[] = {
		{.name = "negotiates", .begin = worker_prepare},
		{.test = requests_may_follow_the_handshake_at_once, .last = ways},
		{.test = handshake_may_come_byte_by_byte, .last = ways},
		{.test = handshake_has_a_time_limit, .last = ways},
		{.test = client_may_vanish_in_the_handshake, .last = ways},

		{.name = "the client ends it", .begin = worker_prepare},
		{.test = disconnect_waits_for_the_requests_before_it, .last = ways},
		{.test = client_that_sends_no_more_gets_its_replies, .last = ways},
		{.test = client_that_vanishes_leaves_when_the_disk_is_done, .last = ways},
		{.test = client_that_takes_no_replies_may_vanish, .last = ways},
		{.test = large_replies_arrive_whole_however_slowly_they_are_taken, .last = ways},

		{.name = "the server ends it", .begin = worker_prepare},
		{.test = leaving_worker_answers_what_is_under_way, .last = ways},
		{.test = draining_worker_carries_out_what_was_sent_and_refuses_the_rest,
		 .last = ways},
		{.test = draining_worker_carries_out_what_has_waited, .last = ways},
		{.test = refusing_worker_carries_out_only_what_has_begun, .last = ways},
		{.test = draining_worker_ends_an_idle_connection, .last = ways},
		{.test = used_up_keys_end_a_connection_without_refusals, .last = ways},
		{.test = aborting_worker_waits_for_the_disk_alone, .last = ways},
		{.test = worker_that_ends_does_not_wait_for_a_handshake, .last = ways},
		{.test = worker_that_ends_gets_the_messages_of_its_connections, .last = ways},

		{.name = "lingers", .begin = worker_prepare},
		{.test = last_replies_over_tcp_are_not_lost_to_what_the_client_still_sends,
		 .last = ways},
		{0},
	};

	return suite_run("connection", cases);
}
