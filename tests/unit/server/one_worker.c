/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/server/one_worker.h"

#include "engine/backend/choice.h"
#include "server/access/identity.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Tries of a millisecond each, until a test gives up. */
#define PATIENCE 20000

struct fake_image disk;
struct worker the_worker;
struct worker_config the_config;

static struct export the_export;
static struct offer *the_offer;
static _Atomic unsigned int closed_count;
static _Atomic unsigned int turn_count;
static unsigned int taken_count;

int
worker_ways(void)
{
	char reason[REASON_MAX];

	if (getenv("NBDLOOP_VALGRIND"))
		printf("SKIP: on io_uring: valgrind doesn't see what io_uring writes\n");
	else if (backend_works(ENGINE_IO_URING, reason) < 0)
		printf("SKIP: on io_uring: no io_uring here\n");
	else
		return 2;
	return 1;
}

static const struct nbd_export *
find(void *data, const char *name, size_t length, struct nbd_refusal *refusal)
{
	const struct nbd_export *facts = &the_offer->facts;

	(void)data;
	(void)refusal;
	return strlen(facts->name) == length && memcmp(facts->name, name, length) == 0 ? facts
										       : NULL;
}

static uint32_t
join(void *data, const struct nbd_export *facts, const char **message)
{
	(void)data;
	(void)message;
	atomic_fetch_add(&offer_of(facts)->connections, 1);
	return 0;
}

static void
left(struct exports *exports, struct offer *offer, struct export_client *client)
{
	(void)exports;
	(void)client;
	atomic_fetch_sub(&offer->connections, 1);
}

static void
closed(void *data)
{
	(void)data;
	atomic_fetch_add(&closed_count, 1);
}

static const struct nbd_export_source source = {.find = find, .join = join};

void
worker_prepare(void)
{
	log_capture_begin();
	the_config = (struct worker_config){
		.handshake = {.exports = &source,
			      .options = NBD_HANDSHAKE_OPTIONS,
			      .skip = NBD_HANDSHAKE_SKIP},
		.left = left,
		.closed = closed,
		.handshake_limit = 60,
		.stuck_limit = 60,
		.memory_limit = (size_t)64 << 20,
	};
}

void
worker_begin(int way, const struct fake_facts *facts)
{
	fake_image_open(&disk, facts);
	the_export = (struct export){
		.image = disk.image, .traffic = traffic_new(1), .threads = 1, .users = 1};
	ck_assert_ptr_nonnull(the_export.traffic);
	the_offer = calloc(1, sizeof(*the_offer) + sizeof(the_offer->messages[0]));
	ck_assert_ptr_nonnull(the_offer);
	the_offer->export = &the_export;
	the_offer->facts = (struct nbd_export){
		.name = "disk",
		.size = image_size(disk.image),
		.min_block = 1,
		.preferred_block = 4096,
		.max_payload = 32u << 20,
		.flags = NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA | NBD_FLAG_SEND_TRIM |
			 NBD_FLAG_SEND_WRITE_ZEROES | NBD_FLAG_SEND_FAST_ZERO |
			 NBD_FLAG_SEND_CACHE | (facts->read_only ? NBD_FLAG_READ_ONLY : 0),
		.allocation = true,
	};
	the_config.use_ring = way == WAY_RING;
	ck_assert_int_eq(worker_start(&the_worker, 0, &the_config), 0);
	closed_count = taken_count = 0;
}

void
worker_finish(void)
{
	worker_join(&the_worker);
	ck_assert_uint_eq(atomic_load(&closed_count), taken_count);
	ck_assert_uint_eq(atomic_load(&the_offer->connections), 0);
	ck_assert_uint_eq(atomic_load(&the_worker.connections), 0);
	ck_assert_uint_eq(worker_requests(), 0);
	fake_image_compare(&disk);
	fake_image_close(&disk);
	free(the_export.traffic);
	free(the_offer);
	log_capture_end();
}

void
worker_take(int fd)
{
	struct identity *identity = identity_new(fd, "a client");

	taken_count++;
	ck_assert_ptr_nonnull(identity);
	ck_assert_int_eq(worker_give(&the_worker, fd, identity), 0);
}

void
worker_traffic(struct traffic_sum *sum)
{
	traffic_sum(the_export.traffic, 1, sum);
}

unsigned int
worker_requests(void)
{
	struct traffic_sum sum;

	worker_traffic(&sum);
	return (unsigned int)sum.under_way;
}

static bool
is_closed(unsigned int count)
{
	return atomic_load(&closed_count) >= count;
}

static bool
has_requests(unsigned int count)
{
	return worker_requests() == count;
}

static void
await(bool (*is_so)(unsigned int count), unsigned int count, const char *what)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (unsigned int i = 0; !is_so(count); i++) {
		ck_assert_msg(i < PATIENCE, "waited in vain for %u %s", count, what);
		nanosleep(&pause, NULL);
	}
}

void
worker_await_closed(unsigned int count)
{
	await(is_closed, count, "connections to end");
}

void
worker_await_requests(unsigned int count)
{
	await(has_requests, count, "requests under way");
}

static void
count_turn(struct worker *worker, struct worker_message *message)
{
	(void)worker;
	(void)message;
	atomic_fetch_add(&turn_count, 1);
}

static bool
has_turned(unsigned int count)
{
	return atomic_load(&turn_count) == count;
}

/* Twice: a message is delivered in the middle of a turn. */
void
worker_catch_up(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct worker_message message = {.deliver = count_turn};
		unsigned int before = atomic_load(&turn_count);

		worker_post(&the_worker, &message);
		await(has_turned, before + 1, "turns of the worker");
	}
}
