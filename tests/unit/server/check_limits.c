/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits as users write them.
 */
#include "server/limit/limiter.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct good {
	enum limit_kind kind;
	const char *text;
	struct limit_rate rate;
} good[] = {
	{LIMIT_IOPS, NULL, {0}},
	{LIMIT_IOPS, "0", {0}},
	{LIMIT_IOPS, "1", {.both = 1}},
	{LIMIT_IOPS, "1000", {.both = 1000}},
	{LIMIT_IOPS, "1000,burst:5", {.both = 1000, .burst = 5}},
	{LIMIT_IOPS, "burst:5 1000", {.both = 1000, .burst = 5}},
	{LIMIT_IOPS, "read:1000", {.read = 1000}},
	{LIMIT_IOPS, "write:7, read:0", {.write = 7}},
	{LIMIT_IOPS, "read:3 write:7 burst:9", {.read = 3, .write = 7, .burst = 9}},
	{LIMIT_IOPS, "9223372036854775807", {.both = INT64_MAX}},
	{LIMIT_BANDWIDTH, "0", {0}},
	{LIMIT_BANDWIDTH, "4k", {.both = 4096}},
	{LIMIT_BANDWIDTH, "100M", {.both = 100 << 20}},
	{LIMIT_BANDWIDTH, "100MB,burst:1G", {.both = 100000000, .burst = 1 << 30}},
	{LIMIT_BANDWIDTH, "write:1M,burst:1", {.write = 1 << 20, .burst = 1}},
};

START_TEST(limit_is_read)
{
	const struct good *row = &good[_i];
	struct limits wanted = {0}, limits = {0};
	char *error = NULL;

	wanted.rates[row->kind] = row->rate;
	ck_assert_int_eq(limit_rate_parse(LIMIT_EXPORT, row->kind, row->text,
					  &limits.rates[row->kind], &error),
			 0);
	ck_assert_ptr_null(error);
	ck_assert(limits_same(&limits, &wanted));
}
END_TEST

static const struct bad {
	enum limit_kind kind;
	const char *text;
} bad[] = {
	{LIMIT_IOPS, ""},
	{LIMIT_IOPS, " "},
	{LIMIT_IOPS, "fast"},
	{LIMIT_IOPS, "-1"},
	{LIMIT_IOPS, "10k"},
	{LIMIT_IOPS, "1.5"},
	{LIMIT_IOPS, "read:"},
	{LIMIT_IOPS, "reads:5"},
	{LIMIT_IOPS, "5,5"},
	{LIMIT_IOPS, "read:5,read:5"},
	{LIMIT_IOPS, "5,read:5"},
	{LIMIT_IOPS, "0,read:5"},
	{LIMIT_IOPS, "burst:5"},
	{LIMIT_IOPS, "0,burst:5"},
	{LIMIT_IOPS, "read:0,burst:5"},
	{LIMIT_IOPS, "9223372036854775808"},
	{LIMIT_BANDWIDTH, "100"},
	{LIMIT_BANDWIDTH, "read:1M,write:4095"},
	{LIMIT_BANDWIDTH, "100M/s"},
	{LIMIT_BANDWIDTH, "8E"},
};

START_TEST(bad_limit_is_named_and_explained)
{
	const struct bad *row = &bad[_i];
	struct limit_rate rate;
	char *error = NULL, *begin;

	ck_assert_int_eq(limit_rate_parse(LIMIT_EXPORT, row->kind, row->text, &rate, &error),
			 -EINVAL);
	ck_assert_int_gt(asprintf(&begin, "%s=%s: must be ", limit_option(LIMIT_EXPORT, row->kind),
				  row->text),
			 0);
	ck_assert_msg(error && strncmp(error, begin, strlen(begin)) == 0, "%s", error);
	free(begin);
	free(error);
}
END_TEST

START_TEST(bad_limit_of_each_client_is_named)
{
	const struct limit_texts texts = {.rates = {"x"}}, connections = {.connections = "x"};
	struct limits limits = {0};
	char *error = NULL;

	ck_assert_int_eq(limits_parse(LIMIT_CLIENT, &texts, &limits, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "client-iops-limit=x: must be "));
	free(error);
	ck_assert_int_eq(limits_parse(LIMIT_CLIENT, &connections, &limits, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "client-connections-limit=x: must be "));
	free(error);
}
END_TEST

START_TEST(limits_that_are_not_given_stay)
{
	struct limits limits = {.rates = {{.both = 5}, {.read = 4096}}, .connections = 3};
	const struct limits wanted = {.rates = {{.both = 5}, {.both = 8192}}, .connections = 3};
	const struct limit_texts texts = {.rates = {[LIMIT_BANDWIDTH] = "8k"}};
	char *error = NULL;

	ck_assert_int_eq(limits_parse(LIMIT_EXPORT, &texts, &limits, &error), 0);
	ck_assert(limits_same(&limits, &wanted));
}
END_TEST

static const char *const bad_connections[] = {"", "x", "-1", "1k", "1000001"};

START_TEST(bad_number_of_connections_is_refused)
{
	const struct limit_texts texts = {.connections = bad_connections[_i]};
	struct limits limits = {.connections = 3};
	char *error = NULL;

	ck_assert_int_eq(limits_parse(LIMIT_EXPORT, &texts, &limits, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "connections-limit="));
	ck_assert_uint_eq(limits.connections, 3);
	free(error);
}
END_TEST

static const struct budgets {
	struct limit_rate rate;
	bool read, write, same;
} budgets[] = {
	{{.both = 5}, true, true, true},
	{{.read = 5}, true, false, false},
	{{.write = 5}, false, true, false},
	{{.read = 5, .write = 5}, true, true, false},
};

START_TEST(reads_and_writes_have_their_budgets)
{
	const struct budgets *row = &budgets[_i];
	const struct limits limits = {.rates = {[LIMIT_IOPS] = row->rate}};
	struct limiter *limiter;
	struct budget *read, *write;

	ck_assert_int_eq(limiter_new(&limiter, &limits, 0), 0);
	read = limiter_budget(limiter, LIMIT_IOPS, 0);
	write = limiter_budget(limiter, LIMIT_IOPS, 1);
	ck_assert_int_eq(read != NULL, row->read);
	ck_assert_int_eq(write != NULL, row->write);
	ck_assert_int_eq(read && read == write, row->same);
	ck_assert_ptr_null(limiter_budget(limiter, LIMIT_BANDWIDTH, 0));
	limiter_release(limiter);
}
END_TEST

START_TEST(no_limit_needs_no_limiter)
{
	const struct limits limits = {.connections = 5};
	struct limiter *limiter;

	ck_assert_int_eq(limiter_new(&limiter, &limits, 0), 0);
	ck_assert_ptr_null(limiter);
	ck_assert_ptr_null(limiter_hold(limiter));
	limiter_release(limiter);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "limits"},
		{.test = limit_is_read, .last = sizeof(good) / sizeof(good[0])},
		{.test = bad_limit_is_named_and_explained, .last = sizeof(bad) / sizeof(bad[0])},
		{.test = bad_limit_of_each_client_is_named},
		{.test = limits_that_are_not_given_stay},
		{.test = bad_number_of_connections_is_refused,
		 .last = sizeof(bad_connections) / sizeof(bad_connections[0])},
		{.test = reads_and_writes_have_their_budgets,
		 .last = sizeof(budgets) / sizeof(budgets[0])},
		{.test = no_limit_needs_no_limiter},
		{0},
	};

	return suite_run("limits", cases);
}
