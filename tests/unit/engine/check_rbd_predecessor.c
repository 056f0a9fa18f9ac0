/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock of an image in Ceph at the start of a server, perhaps in the place of another one.
 */
#include "engine/backing/ceph/rbd_lock.h"

#include "tests/lib/suite.h"
#include "tests/unit/engine/rbd_fixture.h"
#include "tests/unit/event_capture.h"
#include "tests/unit/log_capture.h"

#include "common/cleanup.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void
begin(void)
{
	log_capture_begin();
	event_capture_begin();
}

static void
end(void)
{
	event_capture_end();
	log_capture_end();
}

/* The fixture's client. */
static const struct event taken = {
	.kind = EVENT_LOCK_TAKEN, .subject = CEPH_NAME, .client = "127.0.0.1:0/7"};
static const struct event released = {.kind = EVENT_LOCK_RELEASED, .subject = CEPH_NAME};

static const struct {
	const char *text, *address;
	bool may_be_gone;
} addresses[] = {
	{"127.0.0.1:0/1234567", "127.0.0.1:0/1234567", false},
	{"192.0.2.7:6800/18446744073709551615+free", "192.0.2.7:6800/18446744073709551615", true},
	{"[2001:db8::7]:0/1", "[2001:db8::7]:0/1", false},
	{"v1:192.0.2.7:0/1", "v1:192.0.2.7:0/1", false},
	{NULL, "", false},
};

START_TEST(address_of_a_client_is_taken)
{
	struct rbd_predecessor predecessor;
	char *error = NULL;

	ck_assert_int_eq(rbd_predecessor_parse("rbd:p/i", addresses[_i].text, &predecessor, &error),
			 0);
	ck_assert_str_eq(predecessor.address, addresses[_i].address);
	ck_assert_int_eq(predecessor.may_be_gone, addresses[_i].may_be_gone);
	ck_assert_ptr_null(error);
}
END_TEST

static const char *const wrong_addresses[] = {
	"",         "/",           "+free",         ":0/1",          "192.0.2.7",    "192.0.2.7:0",
	"1.2.3.4/", "1.2.3.4:0/",  "1.2.3.4:/1",    "1.2.3.4:0/1x",  "1.2.3.4:0/1,", "host:0/1",
	"a b:0/1",  "client.4123", "1.2.3.4:0/1+f", "1.2.3.4:0x1/1",
};

START_TEST(wrong_address_is_explained)
{
	struct rbd_predecessor predecessor;
	char *CLEANUP_FREE error = NULL;

	ck_assert_int_eq(
		rbd_predecessor_parse("rbd:p/i", wrong_addresses[_i], &predecessor, &error),
		-EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "rbd:p/i: ceph-fence="));
	ck_assert_ptr_nonnull(strstr(error, "lock_address"));
}
END_TEST

/* Takes the lock at the start. *error: the sentence; the caller frees it. */
static int
start(const char *predecessor, char **error)
{
	struct rbd_store *store = ceph_get("disk", false);
	struct rbd_predecessor parsed;
	int r;

	*error = NULL;
	ck_assert_int_eq(rbd_predecessor_parse("rbd:p/i", predecessor, &parsed, error), 0);
	atomic_store(&store->exclusive, true);
	r = rbd_lock_take(store, &parsed, error);
	ck_assert_int_eq(r == 0, ceph.acquired);
	ck_assert_int_eq(r == 0, !*error);
	if (r == 0) {
		/* The first change makes sure that the lock is still there. */
		ck_assert_int_eq(ceph_call(store, CALL_WRITE), 0);
		ceph.questions = 0;
		ck_assert_int_eq(ceph_call(store, CALL_WRITE), 0);
		ck_assert_int_eq(ceph.questions, 0);
	}
	rbd_store_put(store);
	return r;
}

START_TEST(lock_is_taken_at_the_start)
{
	char *CLEANUP_FREE error = NULL;

	ceph_begin(NULL);
	ck_assert_int_eq(start(NULL, &error), 0);
	ck_assert_int_eq(ceph.early, 0);
	ck_assert_int_eq(ceph.released, 1);
	ck_assert(event_capture_has(&taken));
	ck_assert(event_capture_has(&released));
}
END_TEST

/* A guard that does not know its server's name ends it. */
START_TEST(server_tells_its_name_though_its_watch_is_being_renewed)
{
	char *CLEANUP_FREE error = NULL;

	ceph_begin(NULL);
	ceph.renewals = 2;
	ck_assert_int_eq(start(NULL, &error), 0);
	ck_assert_int_eq(ceph.renewals, 0);
	ck_assert(event_capture_has(&taken));
}
END_TEST

/* As for librbd, if the cluster refuses the client. */
START_TEST(lock_that_is_not_free_at_the_end_was_not_given_back)
{
	char *CLEANUP_FREE error = NULL;

	ceph_begin(&(struct rbd_owner){.address = "1.2.3.4:0/2", .own = true});
	ceph.stuck = true;
	ck_assert_int_eq(start(NULL, &error), 0);
	ck_assert_int_eq(ceph.released, 1);
	ck_assert(!event_capture_has(&released));
}
END_TEST

START_TEST(start_fails_at_once_beside_a_living_owner)
{
	char *CLEANUP_FREE error = NULL;

	ceph_begin(&(struct rbd_owner){.address = "1.2.3.4:0/1", .watches = true});
	ck_assert_int_eq(start(NULL, &error), -EBUSY);
	ck_assert_int_eq(ceph.questions, 1);
	ck_assert_ptr_nonnull(strstr(error, "the client 1.2.3.4:0/1 has the image's lock; end"));
	ck_assert_str_eq(ceph.broken, "");
}
END_TEST

static void *
forget_owner(void *data)
{
	(void)data;
	while (atomic_load(&ceph.questions) < 2)
		usleep(1000);
	pthread_mutex_lock(&ceph_locking);
	ceph.owner.watches = false;
	pthread_mutex_unlock(&ceph_locking);
	return NULL;
}

START_TEST(start_waits_for_an_owner_that_does_not_answer)
{
	char *CLEANUP_FREE error = NULL;
	pthread_t thread;

	ceph_begin(&(struct rbd_owner){.address = "1.2.3.4:0/1", .watches = true});
	ceph.silent = true;
	ck_assert_int_eq(pthread_create(&thread, NULL, forget_owner, NULL), 0);
	ck_assert_int_eq(start(NULL, &error), 0);
	pthread_join(thread, NULL);
	ck_assert_int_eq(ceph.answers, 1);
	ck_assert_str_eq(ceph.broken, "1.2.3.4:0/1");
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "does not answer: the start waits"));
}
END_TEST

START_TEST(predecessor_is_fenced_at_once)
{
	char *CLEANUP_FREE error = NULL;

	ceph_begin(&(struct rbd_owner){.address = "1.2.3.4:0/1", .watches = true});
	ck_assert_int_eq(start("1.2.3.4:0/1", &error), 0);
	ck_assert_str_eq(ceph.broken, "1.2.3.4:0/1");
	ck_assert_int_eq(ceph.answers, 0);
	ck_assert_int_eq(ceph.early, 0);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "fenced the client 1.2.3.4:0/1, which had the "
						     "image's lock before (ceph-fence)"));
	ck_assert(event_capture_has(&taken));
}
END_TEST

START_TEST(lock_of_a_fenced_predecessor_is_tried_again)
{
	char *CLEANUP_FREE error = NULL;

	ceph_begin(&(struct rbd_owner){.address = "1.2.3.4:0/1"});
	ceph.refusals = 2;
	ck_assert_int_eq(start("1.2.3.4:0/1", &error), 0);
}
END_TEST

/* Whoever has the lock now, or had it, may have written. */
static const struct {
	const char *predecessor;
	struct rbd_owner owner;
	bool taken;
} successions[] = {
	{"1.2.3.4:0/1", {.address = ""}, false},
	{"1.2.3.4:0/1+free", {.address = ""}, true},
	{"1.2.3.4:0/1", {.address = "1.2.3.4:0/12", .watches = true}, false},
	{"1.2.3.4:0/1", {.address = "1.2.3.4:0/12"}, false},
	{"1.2.3.4:0/1+free", {.address = "1.2.3.4:0/12", .watches = true}, false},
	{"1.2.3.4:0/1+free", {.address = "1.2.3.4:0/12"}, false},
	{"1.2.3.4:0/1+free", {.address = "1.2.3.4:0/1", .watches = true}, true},
};

START_TEST(server_that_others_came_before_does_not_start)
{
	char *CLEANUP_FREE error = NULL;

	ceph_begin(&successions[_i].owner);
	ck_assert_int_eq(start(successions[_i].predecessor, &error),
			 successions[_i].taken ? 0 : -ESTALE);
	if (successions[_i].taken)
		return;
	ck_assert_str_eq(ceph.broken, "");
	ck_assert(event_capture_has(
		&(struct event){.kind = EVENT_FENCED, .subject = CEPH_NAME, .text = error}));
	ck_assert(!event_capture_has(&taken));
	ck_assert_ptr_nonnull(
		strstr(error, ": another client has had the image since 1.2.3.4:0/1,"));
	ck_assert_ptr_nonnull(strstr(error, successions[_i].owner.address[0] ? "1.2.3.4:0/12"
									     : "the lock is free"));
}
END_TEST

START_TEST(lock_taken_by_another_after_the_fence_is_a_loss)
{
	char *CLEANUP_FREE error = NULL;

	ceph_begin(&(struct rbd_owner){.address = "1.2.3.4:0/1"});
	ceph.thief = "1.2.3.4:0/2";
	ck_assert_int_eq(start("1.2.3.4:0/1", &error), -ESTALE);
	ck_assert_str_eq(ceph.broken, "1.2.3.4:0/1");
	ck_assert_ptr_nonnull(strstr(error, "the lock is with 1.2.3.4:0/2"));
	ck_assert(event_capture_has(
		&(struct event){.kind = EVENT_FENCED, .subject = CEPH_NAME, .text = error}));
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "predecessor", .begin = begin, .end = end},
		{.test = address_of_a_client_is_taken,
		 .last = sizeof(addresses) / sizeof(addresses[0])},
		{.test = wrong_address_is_explained,
		 .last = sizeof(wrong_addresses) / sizeof(wrong_addresses[0])},
		{.test = lock_is_taken_at_the_start},
		{.test = server_tells_its_name_though_its_watch_is_being_renewed},
		{.test = lock_that_is_not_free_at_the_end_was_not_given_back},
		{.test = start_fails_at_once_beside_a_living_owner},
		{.test = start_waits_for_an_owner_that_does_not_answer},
		{.test = predecessor_is_fenced_at_once},
		{.test = lock_of_a_fenced_predecessor_is_tried_again},
		{.test = server_that_others_came_before_does_not_start,
		 .last = sizeof(successions) / sizeof(successions[0])},
		{.test = lock_taken_by_another_after_the_fence_is_a_loss},
		{0},
	};

	return suite_run("rbd_predecessor", cases);
}
