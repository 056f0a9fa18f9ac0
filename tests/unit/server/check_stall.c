/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which clients are stalled: they keep memory that others wait for, and move too little.  Each call
 * of stall_check() stands for a second; nothing runs.
 */
#include "server/connection/stall.h"

#include "server/loop/loop_backend.h"
#include "server/connection/conn.h"
#include "server/access/identity.h"
#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIMIT  3u
#define ENOUGH ((uint64_t)LIMIT * STALL_RATE)

static const struct worker_config config = {.stuck_limit = LIMIT};
static struct worker worker;
static struct conn keeper, waiter; /* has memory; waits for some */
static struct request *const some_request = (struct request *)&keeper;
static int ends[2][2];

static void
no_cancel(struct loop *loop, struct loop_op *op)
{
	(void)loop;
	(void)op;
}

static const struct loop_backend no_loop = {.cancel = no_cancel};
static struct loop loop = {.backend = &no_loop};
static char place[] = "a client";
static struct identity somebody = {.text = place};

static void
conn_init(struct conn *conn, int *pair, struct conn *next)
{
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	*conn = (struct conn){.worker = &worker,
			      .transport = {.fd = pair[0], .loop = &loop},
			      .identity = &somebody,
			      .life = CONN_SERVES,
			      .next = next};
}

static void
begin(void)
{
	log_capture_begin();
	worker = (struct worker){.config = &config, .loop = &loop, .conns = &keeper};
	conn_init(&keeper, ends[0], &waiter);
	conn_init(&waiter, ends[1], NULL);
	keeper.queue.buffers = 1;
	keeper.transport.send_op.active = true;
	waiter.paused = true;
}

static void
end(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		close(ends[i][0]);
		close(ends[i][1]);
	}
	log_capture_end();
}

static void
pass(unsigned int seconds)
{
	for (unsigned int i = 0; i < seconds; i++)
		stall_check(&worker);
}

START_TEST(client_that_takes_no_replies_is_disconnected_after_the_limit)
{
	pass(LIMIT);
	ck_assert(!keeper.transport.lost);
	pass(1);
	ck_assert(keeper.transport.lost);
	ck_assert(!waiter.transport.lost);
	ck_assert(
		log_capture_has(LOG_LEVEL_WARNING, "took too little of its replies in 3 seconds"));
}
END_TEST

START_TEST(client_that_sends_no_data_is_disconnected_after_the_limit)
{
	keeper.transport.send_op.active = false;
	keeper.intake.filling = some_request;
	pass(LIMIT);
	ck_assert(!keeper.transport.lost);
	pass(1);
	ck_assert(keeper.transport.lost);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "sent too little of the data of a write"));
}
END_TEST

/* A virtual machine that is paused loses no disk. */
START_TEST(client_may_take_its_time_while_none_waits)
{
	waiter.paused = false;
	pass(100);
	ck_assert(!keeper.transport.lost);
	waiter.paused = true;
	pass(1);
	ck_assert(keeper.transport.lost);
}
END_TEST

START_TEST(slow_client_that_moves_enough_is_kept)
{
	for (unsigned int i = 0; i < 20; i++) {
		pass(LIMIT);
		keeper.transport.bytes_out += ENOUGH;
	}
	ck_assert(!keeper.transport.lost);
}
END_TEST

START_TEST(few_bytes_now_and_then_are_not_enough)
{
	for (unsigned int i = 0; i < LIMIT + 1; i++) {
		pass(1);
		keeper.transport.bytes_out += ENOUGH / 4 - 1;
	}
	ck_assert(keeper.transport.lost);
}
END_TEST

START_TEST(bytes_in_the_other_direction_are_no_progress)
{
	for (unsigned int i = 0; i < LIMIT + 1; i++) {
		pass(1);
		keeper.transport.bytes_in += ENOUGH;
	}
	ck_assert(keeper.transport.lost);
}
END_TEST

START_TEST(client_without_memory_is_in_nobodys_way)
{
	keeper.queue.buffers = 0;
	pass(100);
	ck_assert(!keeper.transport.lost);
}
END_TEST

/* What it waits for is its own replies. */
START_TEST(client_with_all_requests_under_way_waits_for_none_but_itself)
{
	waiter.queue.in_flight = CONN_REQUESTS;
	pass(100);
	ck_assert(!keeper.transport.lost);
}
END_TEST

START_TEST(stalled_clients_that_wait_for_each_other_are_left_alone)
{
	waiter.queue.buffers = 1;
	waiter.transport.send_op.active = true;
	pass(100);
	ck_assert(!keeper.transport.lost && !waiter.transport.lost);
}
END_TEST

START_TEST(time_begins_anew_with_each_transfer)
{
	pass(LIMIT);
	keeper.transport.send_op.active = false;
	pass(1);
	keeper.transport.send_op.active = true;
	pass(LIMIT);
	ck_assert(!keeper.transport.lost);
	pass(1);
	ck_assert(keeper.transport.lost);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "stall", .begin = begin, .end = end},
		{.test = client_that_takes_no_replies_is_disconnected_after_the_limit},
		{.test = client_that_sends_no_data_is_disconnected_after_the_limit},
		{.test = client_may_take_its_time_while_none_waits},
		{.test = slow_client_that_moves_enough_is_kept},
		{.test = few_bytes_now_and_then_are_not_enough},
		{.test = bytes_in_the_other_direction_are_no_progress},
		{.test = client_without_memory_is_in_nobodys_way},
		{.test = client_with_all_requests_under_way_waits_for_none_but_itself},
		{.test = stalled_clients_that_wait_for_each_other_are_left_alone},
		{.test = time_begins_anew_with_each_transfer},
		{0},
	};

	return suite_run("stall", cases);
}
