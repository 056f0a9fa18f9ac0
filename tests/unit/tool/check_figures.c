/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Figures for the time between two samples of the counters.
 */
#include "tool/show/figures.h"

#include "tests/lib/suite.h"
#include "tests/unit/tool/system_tree.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

static struct sample before, after;
static struct figures figures;

static void
assert_near(double seen, double wanted)
{
	ck_assert_msg(fabs(seen - wanted) < 1e-9 + wanted * 1e-9, "%f, not %f", seen, wanted);
}

/* Two seconds with one server. */
static void
begin(void)
{
	before = (struct sample){.time = 1000000, .server = 813};
	after = (struct sample){.time = 3000000, .server = 813};
}

START_TEST(rates_are_those_of_the_interval)
{
	before.count[FIGURES_READ] = 100;
	before.sectors[FIGURES_READ] = 800;
	before.milliseconds[FIGURES_READ] = 50;
	before.busy = 500;
	after.count[FIGURES_READ] = 300;
	after.sectors[FIGURES_READ] = 800 + 200 * 8;
	after.milliseconds[FIGURES_READ] = 50 + 600;
	after.busy = 500 + 1500;
	figures_between(&before, &after, &figures);
	assert_near(figures.seconds, 2);
	assert_near(figures.busy, 0.75);
	assert_near(figures.ops[FIGURES_READ].iops, 100);
	assert_near(figures.ops[FIGURES_READ].bytes_per_second, 100 * 4096);
	assert_near(figures.ops[FIGURES_READ].bytes, 4096);
	assert_near(figures.ops[FIGURES_READ].milliseconds, 3);
	assert_near(figures.ops[FIGURES_WRITE].iops, 0);
	assert_near(figures.ops[FIGURES_WRITE].bytes, 0);
	assert_near(figures.ops[FIGURES_WRITE].milliseconds, 0);
}
END_TEST

START_TEST(busy_is_never_more_than_all_the_time)
{
	after.busy = 2100;
	figures_between(&before, &after, &figures);
	assert_near(figures.busy, 1);
}
END_TEST

START_TEST(counters_that_went_back_count_as_nothing)
{
	before.count[FIGURES_WRITE] = UINT32_MAX;
	after.count[FIGURES_WRITE] = 5;
	before.latency[FIGURES_WRITE][3] = 9;
	after.latency[FIGURES_WRITE][3] = 4;
	figures_between(&before, &after, &figures);
	assert_near(figures.ops[FIGURES_WRITE].iops, 0);
	ck_assert_uint_eq(figures.ops[FIGURES_WRITE].median, 0);
}
END_TEST

START_TEST(no_time_between_is_no_division_by_zero)
{
	after.time = before.time;
	after.count[FIGURES_READ] = 1;
	figures_between(&before, &after, &figures);
	ck_assert(isfinite(figures.ops[FIGURES_READ].iops) && isfinite(figures.busy));
}
END_TEST

START_TEST(percentiles_are_bounds_of_buckets)
{
	uint64_t buckets[FIGURES_BUCKETS] = {0};

	ck_assert_uint_eq(figures_percentile(buckets, 50), 0);
	ck_assert_uint_eq(figures_percentile(buckets, 100), 0);
	buckets[6] = 1; /* 32 to 63 microseconds */
	ck_assert_uint_eq(figures_percentile(buckets, 1), 64);
	ck_assert_uint_eq(figures_percentile(buckets, 99), 64);
	buckets[6] = 98;
	buckets[10] = 1;
	buckets[20] = 1;
	ck_assert_uint_eq(figures_percentile(buckets, 50), 64);
	ck_assert_uint_eq(figures_percentile(buckets, 98), 64);
	ck_assert_uint_eq(figures_percentile(buckets, 99), 1024);
	ck_assert_uint_eq(figures_percentile(buckets, 100), 1 << 20);
	buckets[0] = UINT32_MAX;
	ck_assert_uint_eq(figures_percentile(buckets, 99), 1);
	ck_assert_uint_eq(figures_percentile(buckets, 100), 1 << 20);
	buckets[31] = 1;
	ck_assert_uint_eq(figures_percentile(buckets, 100), UINT64_C(1) << 31);
}
END_TEST

START_TEST(latencies_are_those_of_the_interval)
{
	before.latency[FIGURES_READ][4] = 1000;
	after.latency[FIGURES_READ][4] = 1000;
	after.latency[FIGURES_READ][7] = 10;
	figures_between(&before, &after, &figures);
	ck_assert_uint_eq(figures.ops[FIGURES_READ].median, 128);
	ck_assert_uint_eq(figures.latency[FIGURES_READ][4], 0);
	ck_assert_uint_eq(figures.latency[FIGURES_READ][7], 10);
}
END_TEST

START_TEST(server_that_was_started_again_begins_at_nothing)
{
	before.latency[FIGURES_READ][4] = 1000;
	after.server = 900;
	after.latency[FIGURES_READ][4] = 7;
	figures_between(&before, &after, &figures);
	ck_assert_uint_eq(figures.latency[FIGURES_READ][4], 7);
}
END_TEST

START_TEST(server_that_answers_again_does_not_tell_its_whole_life)
{
	before.server = 0;
	after.latency[FIGURES_READ][4] = 1000;
	figures_between(&before, &after, &figures);
	ck_assert_uint_eq(figures.latency[FIGURES_READ][4], 0);
	ck_assert_uint_eq(figures.ops[FIGURES_READ].median, 0);
}
END_TEST

START_TEST(zeroes_are_counted_by_the_server)
{
	after.latency[FIGURES_ZERO][9] = 8;
	figures_between(&before, &after, &figures);
	assert_near(figures.ops[FIGURES_ZERO].iops, 4);
	assert_near(figures.ops[FIGURES_ZERO].bytes_per_second, 0);
}
END_TEST

/* ---- where samples come from */

START_TEST(kernel_part_is_read_from_sys)
{
	struct device *device = device_read("nbd0", NULL);
	struct sample sample;

	tree_write("sys/block/nbd0/stat", " 52 1 4160 33 16 2 128 12 0 40 45 2 3 65536 1 3 8\n");
	tree_write("sys/block/nbd0/inflight", "       1        2\n");
	ck_assert(sample_read(&sample, device, NULL));
	ck_assert_uint_eq(sample.count[FIGURES_READ], 52);
	ck_assert_uint_eq(sample.sectors[FIGURES_READ], 4160);
	ck_assert_uint_eq(sample.milliseconds[FIGURES_READ], 33);
	ck_assert_uint_eq(sample.count[FIGURES_WRITE], 16);
	ck_assert_uint_eq(sample.sectors[FIGURES_WRITE], 128);
	ck_assert_uint_eq(sample.milliseconds[FIGURES_WRITE], 12);
	ck_assert_uint_eq(sample.busy, 40);
	ck_assert_uint_eq(sample.count[FIGURES_DISCARD], 2);
	ck_assert_uint_eq(sample.sectors[FIGURES_DISCARD], 65536);
	ck_assert_uint_eq(sample.milliseconds[FIGURES_DISCARD], 1);
	ck_assert_uint_eq(sample.count[FIGURES_FLUSH], 3);
	ck_assert_uint_eq(sample.milliseconds[FIGURES_FLUSH], 8);
	ck_assert_uint_eq(sample.in_flight[0], 1);
	ck_assert_uint_eq(sample.in_flight[1], 2);
	ck_assert_int_eq(sample.server, 0);
	device_free(device);
}
END_TEST

START_TEST(older_kernel_tells_no_flushes)
{
	struct device *device = device_read("nbd0", NULL);
	struct sample sample;

	tree_write("sys/block/nbd0/stat", " 52 1 4160 33 16 2 128 12 0 40 45 2 3 65536 1\n");
	ck_assert(sample_read(&sample, device, NULL));
	ck_assert_uint_eq(sample.count[FIGURES_DISCARD], 2);
	ck_assert_uint_eq(sample.count[FIGURES_FLUSH] + sample.milliseconds[FIGURES_FLUSH], 0);
	device_free(device);
}
END_TEST

START_TEST(missing_stat_is_an_error)
{
	struct device *device = device_read("nbd0", NULL);
	struct sample sample;
	GError *error = NULL;

	tree_remove("sys/block/nbd0/stat");
	ck_assert(!sample_read(&sample, device, &error));
	ck_assert_ptr_nonnull(error);
	g_error_free(error);
	device_free(device);
}
END_TEST

START_TEST(server_part_is_read_from_its_answer)
{
	json_t *status =
		json_loads("{\"pid\":813,\"exports\":[{\"requests\":3,\"counters\":{\"errors\":5},"
			   "\"latency_us\":{\"read\":[0,0,7],\"write\":[],\"zero\":[1]}}]}",
			   0, NULL);
	struct sample sample = {.time = 1};

	sample_add_server(&sample, status, json_array_get(json_object_get(status, "exports"), 0));
	ck_assert_int_eq(sample.server, 813);
	ck_assert_uint_eq(sample.requests, 3);
	ck_assert_uint_eq(sample.errors, 5);
	ck_assert_uint_eq(sample.latency[FIGURES_READ][2], 7);
	ck_assert_uint_eq(sample.latency[FIGURES_ZERO][0], 1);
	json_decref(status);
	sample = (struct sample){.time = 1};
	sample_add_server(&sample, NULL, NULL);
	ck_assert_int_eq(sample.server, 0);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "interval", .begin = begin},
		{.test = rates_are_those_of_the_interval},
		{.test = busy_is_never_more_than_all_the_time},
		{.test = counters_that_went_back_count_as_nothing},
		{.test = no_time_between_is_no_division_by_zero},
		{.test = percentiles_are_bounds_of_buckets},
		{.test = latencies_are_those_of_the_interval},
		{.test = server_that_was_started_again_begins_at_nothing},
		{.test = server_that_answers_again_does_not_tell_its_whole_life},
		{.test = zeroes_are_counted_by_the_server},
		{.name = "recorded",
		 .begin_once = tree_new,
		 .end_once = tree_free,
		 .begin = tree_begin},
		{.test = kernel_part_is_read_from_sys},
		{.test = older_kernel_tells_no_flushes},
		{.test = missing_stat_is_an_error},
		{.test = server_part_is_read_from_its_answer},
		{0},
	};

	return suite_run("figures", cases);
}
