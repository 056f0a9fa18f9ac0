/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The limits of each client of an export.  A client is the handshake's calls; there is no worker.
 */
#include "server/exports/exports.h"

#include "common/clock.h"
#include "server/access/identity.h"
#include "server/exports/export_changes.h"
#include "server/exports/export_limits.h"
#include "server/exports/export_source.h"
#include "server/limit/limiter.h"
#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <unistd.h>

#define CLIENTS 3

static struct exports *exports;
static struct server_config config;
static int file;
static struct identity identities[CLIENTS];
static struct applicant clients[CLIENTS];

static void
wake(void *data)
{
	(void)data;
}

/* The export "a". */
static void
begin(void)
{
	static char place[] = "a client";
	struct export_config *added;
	char path[SCRATCH_PATH], *error = NULL;

	log_capture_begin();
	ck_assert_int_eq(config_init(&config), 0);
	file = scratch_memory_file(65536);
	exports = exports_new(NULL, 0, wake, NULL);
	ck_assert_ptr_nonnull(exports);
	for (unsigned int i = 0; i < CLIENTS; i++) {
		identities[i] = (struct identity){.kind = IDENTITY_UNIX, .uid = i, .text = place};
		clients[i] = (struct applicant){.exports = exports, .identity = &identities[i]};
	}
	ck_assert_int_eq(config_add_export(&config, "a", &added, &error), 0);
	ck_assert_int_eq(
		option_set(export_option_rows(), added, "file", scratch_path(file, path), &error),
		0);
	config.exports = NULL;
	ck_assert_int_eq(exports_add(exports, added, &error), 0);
}

static void
end(void)
{
	exports_free(exports);
	config_fini(&config);
	close(file);
	log_capture_end();
}

static void
assert_join(unsigned int client, const struct nbd_export *facts, bool works)
{
	const char *message = NULL;

	ck_assert_int_eq(exports_listed.join(&clients[client], facts, &message) == 0, works);
	ck_assert_int_eq(message == NULL, works);
}

static void
limit(const char *iops, const char *connections)
{
	const struct limit_texts texts[LIMIT_SCOPES] = {
		[LIMIT_CLIENT] = {.rates = {[LIMIT_IOPS] = iops}, .connections = connections}};
	char *error;

	ck_assert_int_eq(exports_set_limits(exports, "a", texts, &error), 0);
}

/* The limiter that the client's connections have; stays while the client does. */
static struct limiter *
limiter_of(unsigned int client, const struct nbd_export *facts)
{
	struct limiter *limiters[LIMIT_SCOPES];

	exports_limiters(exports, offer_of(facts), clients[client].client, limiters);
	ck_assert_ptr_null(limiters[LIMIT_EXPORT]);
	limiter_release(limiters[LIMIT_CLIENT]);
	return limiters[LIMIT_CLIENT];
}

static bool
may_do(struct limiter *limiter, uint64_t units)
{
	const uint64_t now = clock_ns(CLOCK_BOOTTIME);
	struct share share = {0};

	return budget_fill(limiter_budget(limiter, LIMIT_IOPS, 0), &share, units, now, now) == 0;
}

static void
leave(unsigned int client, const struct nbd_export *facts)
{
	exports_left(exports, offer_of(facts), clients[client].client);
}

/* Neither when it comes back, nor with a second connection. */
START_TEST(client_gets_one_burst)
{
	const struct nbd_export *facts = &exports->listed->facts;

	limit("1,burst:1000", NULL);
	assert_join(1, facts, true);
	ck_assert(may_do(limiter_of(1, facts), 990));
	assert_join(1, facts, true);
	ck_assert(!may_do(limiter_of(1, facts), 900));
	leave(1, facts);
	leave(1, facts);
	assert_join(1, facts, true);
	ck_assert(!may_do(limiter_of(1, facts), 900));
	assert_join(2, facts, true);
	ck_assert(may_do(limiter_of(2, facts), 900));
	leave(1, facts);
	leave(2, facts);
}
END_TEST

START_TEST(changed_limits_of_clients_bring_no_burst)
{
	const struct nbd_export *facts = &exports->listed->facts;
	struct limiter *before;

	assert_join(1, facts, true);
	ck_assert_ptr_null(limiter_of(1, facts));
	limit("1,burst:1000", NULL);
	before = limiter_of(1, facts);
	ck_assert(!may_do(before, 100));
	limit(NULL, "5");
	ck_assert_ptr_eq(limiter_of(1, facts), before);
	limit("0", NULL);
	ck_assert_ptr_null(limiter_of(1, facts));
	leave(1, facts);
}
END_TEST

START_TEST(connections_of_each_client_are_counted)
{
	const struct nbd_export *facts = &exports->listed->facts;

	assert_join(1, facts, true);
	limit(NULL, "1");
	assert_join(1, facts, false);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "(client-connections-limit)"));
	assert_join(2, facts, true);
	limit(NULL, "2");
	assert_join(1, facts, true);
	assert_join(1, facts, false);
	leave(1, facts);
	assert_join(1, facts, true);
	leave(1, facts);
	leave(1, facts);
	leave(2, facts);
	ck_assert_ptr_null(offer_of(facts)->export->clients);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "limits of clients", .begin = begin, .end = end},
		{.test = client_gets_one_burst},
		{.test = changed_limits_of_clients_bring_no_burst},
		{.test = connections_of_each_client_are_counted},
		{0},
	};

	return suite_run("export clients", cases);
}
