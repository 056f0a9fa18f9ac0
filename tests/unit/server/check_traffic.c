/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each thread's counts of an image's requests, and their sums.
 */
#include "server/request/traffic.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>

#define US UINT64_C(1000)

static struct traffic *traffic;
static struct traffic_sum sum;

static void
open_two(void)
{
	traffic = traffic_new(2);
	ck_assert_ptr_nonnull(traffic);
}

static void
close_two(void)
{
	free(traffic);
}

static const struct row {
	uint64_t duration; /* ns */
	unsigned int bucket;
} rows[] = {
	{0, 0},
	{US - 1, 0},
	{US, 1},
	{2 * US - 1, 1},
	{2 * US, 2},
	{4 * US - 1, 2},
	{4 * US, 3},
	{1024 * US - 1, 10},
	{1024 * US, 11},
	{(UINT64_C(1) << 30) * US - 1, 30},
	{(UINT64_C(1) << 30) * US, 31},
	{(UINT64_C(1) << 40) * US, 31},
	{UINT64_MAX, 31},
};

START_TEST(bucket_is_for_less_than_a_power_of_two)
{
	traffic_count(&traffic[0], IO_WRITE, rows[_i].duration);
	traffic_sum(traffic, 2, &sum);
	for (unsigned int op = 0; op < TRAFFIC_OPS; op++) {
		for (unsigned int bucket = 0; bucket < TRAFFIC_BUCKETS; bucket++)
			ck_assert_uint_eq(sum.latency[op][bucket],
					  op == IO_WRITE && bucket == rows[_i].bucket);
	}
}
END_TEST

START_TEST(sum_is_of_all_threads)
{
	traffic_begin(&traffic[0]);
	traffic_begin(&traffic[1]);
	traffic_begin(&traffic[1]);
	traffic_count(&traffic[0], IO_ZERO, 0);
	traffic_count(&traffic[1], IO_ZERO, 0);
	traffic_count(&traffic[1], IO_READ, 5 * US);
	traffic_sum(traffic, 2, &sum);
	ck_assert_uint_eq(sum.under_way, 3);
	ck_assert_uint_eq(sum.latency[IO_ZERO][0], 2);
	ck_assert_uint_eq(sum.latency[IO_READ][3], 1);
	traffic_end(&traffic[1]);
	traffic_end(&traffic[1]);
	traffic_end(&traffic[0]);
	traffic_sum(traffic, 2, &sum);
	ck_assert_uint_eq(sum.under_way, 0);
}
END_TEST

START_TEST(threads_share_no_cache_line)
{
	ck_assert_uint_eq((uintptr_t)&traffic[0] % 64, 0);
	ck_assert_uint_eq((uintptr_t)&traffic[1] % 64, 0);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "traffic", .begin = open_two, .end = close_two},
		{.test = bucket_is_for_less_than_a_power_of_two,
		 .last = sizeof(rows) / sizeof(rows[0])},
		{.test = sum_is_of_all_threads},
		{.test = threads_share_no_cache_line},
		{0},
	};

	return suite_run("traffic", cases);
}
