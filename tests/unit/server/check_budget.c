/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arithmetic of budgets: what connections may use by when.
 */
#include "server/limit/budget.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <pthread.h>

#define MS     UINT64_C(1000000)
#define SECOND (1000 * MS)
#define START  (1000 * SECOND)

static struct budget budget;
static struct share one, other;

static void
begin(void)
{
	one = other = (struct share){0};
}

/* Uses units as fast as the budget allows, up to `end`; one request costs `cost`.  Returns how many
 * units were used. */
static uint64_t
use(struct share *share, uint64_t cost, uint64_t from, uint64_t end)
{
	uint64_t used = 0, now = from;

	while (now <= end) {
		uint64_t ticket = budget_fill(&budget, share, cost, now, now);

		if (ticket) {
			ck_assert_uint_gt(ticket, now);
			now = ticket;
			continue;
		}
		budget_pay(share, cost);
		used += cost;
	}
	return used;
}

static const struct row {
	uint64_t rate, burst, least, cost;
	uint64_t seconds;
} rows[] = {
	{1, 0, 1, 1, 100},
	{1, 1, 1, 1, 100},
	{3, 0, 1, 1, 100},
	{1000, 0, 1, 1, 3},
	{1000, 1, 1, 1, 3},
	{100000, 1, 1, 1, 3},
	{1000, 5000, 1, 1, 3},
	{999983, 0, 1, 1, 1},
	{4096, 0, 4096, 4096, 100},
	{5000, 1, 4096, 512, 100},
	{100 << 20, 0, 4096, 65536, 3},
	{100 << 20, 0, 4096, 32 << 20, 30},
	{100 << 20, UINT64_C(4) << 30, 4096, 1 << 20, 3},
	{UINT64_C(1) << 40, 0, 4096, 32 << 20, 1},
	{INT64_MAX, 0, 1, UINT64_C(1) << 56, 1},
	{INT64_MAX / 2, INT64_MAX, 4096, UINT64_C(1) << 56, 1},
};

static uint64_t
burst_of(const struct row *row)
{
	uint64_t burst = row->burst ? row->burst : row->rate / 10, portion = row->rate / 250;

	if (burst < portion)
		burst = portion;
	return burst > row->least ? burst : row->least;
}

/* A rest is over when, and not before, all of a burst is there: a new budget gives no more. */
START_TEST(rest_brings_the_burst_and_no_more)
{
	begin();
	budget_init(&budget, 100, 50, 1, 0);
	ck_assert(budget_is_rested(&budget, START));
	ck_assert_uint_eq(use(&one, 1, START, START), 50);
	ck_assert(!budget_is_rested(&budget, START));
	budget_leave(&budget, &one);
	ck_assert(!budget_is_rested(&budget, START + 489 * MS));
	ck_assert(budget_is_rested(&budget, START + 500 * MS));
	ck_assert_uint_eq(use(&other, 1, START + 500 * MS, START + 500 * MS), 50);
}
END_TEST

/* Never more than burst + rate * time, and little less. */
START_TEST(rate_and_burst_are_kept)
{
	const struct row *row = &rows[_i];
	double most = (double)burst_of(row) + (double)row->rate * (double)row->seconds, used;

	budget_init(&budget, row->rate, row->burst, row->least, 0);
	used = (double)use(&one, row->cost, START, START + row->seconds * SECOND);
	ck_assert_msg(used <= most * (1 + 1e-9), "%f of %f", used, most);
	ck_assert_msg(used >= most * 0.999 - (double)row->cost - (double)budget.portion, "%f of %f",
		      used, most);
}
END_TEST

START_TEST(burst_is_there_at_once_after_a_rest_and_no_more)
{
	budget_init(&budget, 1000, 500, 1, 0);
	ck_assert_uint_eq(use(&one, 1, START, START), 500);
	budget_leave(&budget, &one);
	ck_assert_uint_eq(use(&other, 1, START + 3600 * SECOND, START + 3600 * SECOND), 500);
	ck_assert_uint_eq(use(&other, 1, START + 3600 * SECOND, START + 3600 * SECOND), 0);
}
END_TEST

/* A thread may be late for each of its turns. */
START_TEST(small_burst_costs_a_late_thread_little)
{
	uint64_t used = 0, now = START;

	budget_init(&budget, 100000, 1, 1, 0);
	while (now < START + SECOND) {
		uint64_t ticket = budget_fill(&budget, &one, 1, now, now);

		if (ticket) {
			now = ticket + MS / 10;
			continue;
		}
		budget_pay(&one, 1);
		used++;
	}
	ck_assert_uint_gt(used, 95000);
}
END_TEST

START_TEST(budget_that_begins_now_has_no_burst)
{
	budget_init(&budget, 1000, 500, 1, START);
	ck_assert_uint_eq(use(&one, 1, START, START), budget.portion);
	ck_assert_uint_le(use(&one, 1, START, START + SECOND), 1000);
}
END_TEST

START_TEST(first_portion_comes_at_once_even_at_the_lowest_rate)
{
	budget_init(&budget, 1, 0, 1, 0);
	ck_assert_uint_eq(budget_fill(&budget, &one, 1, START, START), 0);
	ck_assert_uint_eq(budget_fill(&budget, &other, 1, START, START), START + SECOND);
}
END_TEST

/* The clock of a machine that has just started is small. */
START_TEST(machine_that_has_just_started_has_its_burst)
{
	budget_init(&budget, 1000, 1000000, 1, 0);
	ck_assert(budget_is_rested(&budget, 1));
	ck_assert_uint_ge(use(&one, 1, 1, 1), 1000000 - budget.portion);
	ck_assert_uint_le(use(&other, 1, 1, SECOND), 1000);
}
END_TEST

START_TEST(clock_that_stands_still_or_goes_back_hands_out_nothing)
{
	budget_init(&budget, 1000, 10, 1, 0);
	ck_assert_uint_gt(use(&one, 1, START, START), 0);
	ck_assert_uint_eq(use(&one, 1, START, START), 0);
	ck_assert_uint_eq(use(&one, 1, START - 100 * SECOND, START - 100 * SECOND), 0);
	ck_assert_uint_le(use(&one, 1, START, START + SECOND), 1010);
}
END_TEST

START_TEST(clock_that_jumps_hands_out_one_burst)
{
	uint64_t used;

	budget_init(&budget, 1000, 10, 1, 0);
	use(&one, 1, START, START);
	/* Whole portions. */
	used = use(&other, 1, UINT64_MAX / 4, UINT64_MAX / 4);
	ck_assert_uint_le(used, 10);
	ck_assert_uint_gt(used, 10 - budget.portion);
}
END_TEST

/* Whoever comes first has had a portion when the next one gets its; then it is the other's turn. */
START_TEST(two_take_turns)
{
	uint64_t first, second;

	budget_init(&budget, 1000, 4, 1, 0);
	use(&one, 1, START, START);
	first = budget_fill(&budget, &one, 1, START, START);
	second = budget_fill(&budget, &other, 1, START, START);
	for (unsigned int i = 0; i < 100; i++) {
		ck_assert_uint_eq(second - first, budget.interval);
		ck_assert_uint_eq(use(&one, 1, first, first), budget.portion);
		first = one.ticket;
		ck_assert_uint_eq(first - second, budget.interval);
		ck_assert_uint_eq(use(&other, 1, second, second), budget.portion);
		second = other.ticket;
	}
}
END_TEST

/* Large requests take several turns: the units are shared, not the requests. */
START_TEST(large_requests_do_not_displace_small_ones)
{
	uint64_t large = 0, small = 0, now = START;

	budget_init(&budget, 10 << 20, 1 << 16, 4096, START);
	while (now < START + 10 * SECOND) {
		uint64_t a, b;

		while ((a = budget_fill(&budget, &one, 1 << 20, now, now)) == 0) {
			budget_pay(&one, 1 << 20);
			large += 1 << 20;
		}
		while ((b = budget_fill(&budget, &other, 4096, now, now)) == 0) {
			budget_pay(&other, 4096);
			small += 4096;
		}
		now = a < b ? a : b;
	}
	ck_assert_uint_gt(small, large - large / 10);
	ck_assert_uint_lt(small, large + large / 10);
}
END_TEST

START_TEST(ticket_later_than_the_others_waits)
{
	budget_init(&budget, 1000, 100, 1, 0);
	/* There is enough, but somebody has waited for longer. */
	ck_assert_uint_gt(budget_fill(&budget, &one, 1, START, START - SECOND), START - SECOND);
	ck_assert_uint_le(one.ticket, START);
	ck_assert_uint_eq(budget_fill(&budget, &one, 1, START, START), 0);
}
END_TEST

START_TEST(who_leaves_takes_no_time_with_it)
{
	uint64_t ticket;

	budget_init(&budget, 10, 1, 1, 0);
	use(&one, 1, START, START);
	ticket = budget_fill(&budget, &one, 1, START, START);
	for (unsigned int i = 0; i < 1000; i++) {
		ck_assert_uint_gt(budget_fill(&budget, &other, 1, START, START), ticket);
		budget_leave(&budget, &other);
		ck_assert_uint_eq(other.ticket, 0);
	}
	budget_leave(&budget, &one);
	ck_assert_uint_eq(budget_fill(&budget, &one, 1, START, START), ticket);
}
END_TEST

/* Connections that come and go, and use little of their portions, take nothing from the others. */
START_TEST(who_leaves_hands_back_what_it_has_not_used)
{
	uint64_t used = 0;

	budget_init(&budget, 1000, 500, 1, 0);
	ck_assert_uint_gt(budget.portion, 1);
	while (budget_fill(&budget, &one, 1, START, START) == 0) {
		budget_pay(&one, 1);
		budget_leave(&budget, &one);
		ck_assert_uint_eq(one.units, 0);
		used++;
	}
	ck_assert_uint_le(used, 500);
	ck_assert_uint_gt(used, 500 - budget.portion);
}
END_TEST

/* Nor does it hand back more than it has taken, however the portion's time is rounded. */
START_TEST(who_leaves_hands_back_no_more_than_it_took)
{
	const struct row *row = &rows[_i];

	budget_init(&budget, row->rate, row->burst, row->least, START);
	for (uint64_t i = 0; i < 100; i++) {
		uint64_t used = budget.portion / 100 * i + 1, now = budget.handed_out;
		double time = (double)used / (double)budget.portion * (double)budget.interval;

		ck_assert_uint_eq(budget_fill(&budget, &one, 1, now, now), 0);
		budget_pay(&one, used);
		budget_leave(&budget, &one);
		ck_assert_uint_gt(budget.handed_out, now);
		ck_assert((double)(budget.handed_out - now) >= time * (1 - 1e-6) - 1);
		ck_assert((double)(budget.handed_out - now) <= time * (1 + 1e-6) + 1);
	}
}
END_TEST

/* What another budget has given may be used, and is not handed back to this one. */
START_TEST(brought_units_are_used_first_and_not_handed_back)
{
	struct budget next;

	budget_init(&budget, 1000, 0, 1, START);
	budget_init(&next, 1, 0, 1, START);
	ck_assert_uint_eq(budget_fill(&budget, &one, 3, START, START), 0);
	ck_assert_uint_eq(one.units, 4);
	budget_change(&budget, &next, &one, 3);
	ck_assert_uint_eq(one.units, 3);
	/* One of four units, and no more, came back. */
	ck_assert_uint_eq(budget.handed_out - budget.slack, START + 3 * MS);
	ck_assert_uint_eq(budget_fill(&next, &one, 4, START, START), 0);
	budget_leave(&next, &one);
	ck_assert_uint_eq(next.handed_out - next.slack, START);
	ck_assert_uint_eq(one.units, 0);
}
END_TEST

START_TEST(brought_units_that_are_used_are_gone)
{
	struct budget next;

	budget_init(&budget, 1000, 0, 1, START);
	budget_init(&next, 1000, 0, 1, START);
	ck_assert_uint_eq(budget_fill(&budget, &one, 3, START, START), 0);
	budget_change(&budget, &next, &one, 3);
	budget_pay(&one, 3);
	ck_assert_uint_eq(budget_fill(&next, &one, 1, START, START), 0);
	budget_pay(&one, 1);
	budget_leave(&next, &one);
	ck_assert_uint_eq(next.handed_out - next.slack, START + MS);
}
END_TEST

/* A request that was paid for, and could not be carried out. */
START_TEST(units_are_given_back)
{
	budget_init(&budget, 1000, 0, 1, START);
	ck_assert_uint_eq(budget_fill(&budget, &one, 4, START, START), 0);
	budget_pay(&one, 4);
	budget_repay(&one, 4);
	ck_assert_uint_eq(budget_fill(&budget, &one, 4, START, START), 0);
	budget_pay(&one, 4);
	budget_leave(&budget, &one);
	ck_assert_uint_eq(budget.handed_out - budget.slack, START + 4 * MS);
}
END_TEST

START_TEST(nothing_is_kept_where_there_is_no_next_budget)
{
	budget_init(&budget, 1000, 0, 1, START);
	ck_assert_uint_eq(budget_fill(&budget, &one, 3, START, START), 0);
	budget_change(&budget, NULL, &one, 3);
	ck_assert_uint_eq(one.units, 0);
	ck_assert_uint_eq(budget.handed_out - budget.slack, START);
}
END_TEST

/* ---- several threads */

#define THREADS 4
#define TIMES   20000
#define STEP    (MS / 10)

static void *
take_many(void *data)
{
	struct share share = {0};
	uint64_t *used = data;

	for (unsigned int i = 0; i < TIMES; i++) {
		if (budget_fill(&budget, &share, 1, START + i * STEP, START + i * STEP) == 0) {
			budget_pay(&share, 1);
			++*used;
		}
	}
	return NULL;
}

START_TEST(threads_together_keep_the_limit)
{
	pthread_t threads[THREADS];
	uint64_t used[THREADS] = {0}, sum = 0;

	/* One unit in a millisecond, and 100 at once. */
	budget_init(&budget, 1000, 100, 1, 0);
	for (unsigned int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, take_many, &used[i]), 0);
	for (unsigned int i = 0; i < THREADS; i++) {
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
		sum += used[i];
	}
	ck_assert_uint_le(sum, 100 + TIMES / 10 + 1);
	ck_assert_uint_gt(sum, 100);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "budget", .begin = begin},
		{.test = rest_brings_the_burst_and_no_more},
		{.test = rate_and_burst_are_kept, .last = sizeof(rows) / sizeof(rows[0])},
		{.test = burst_is_there_at_once_after_a_rest_and_no_more},
		{.test = small_burst_costs_a_late_thread_little},
		{.test = budget_that_begins_now_has_no_burst},
		{.test = first_portion_comes_at_once_even_at_the_lowest_rate},
		{.test = machine_that_has_just_started_has_its_burst},
		{.test = clock_that_stands_still_or_goes_back_hands_out_nothing},
		{.test = clock_that_jumps_hands_out_one_burst},
		{.test = two_take_turns},
		{.test = large_requests_do_not_displace_small_ones},
		{.test = ticket_later_than_the_others_waits},
		{.test = who_leaves_takes_no_time_with_it},
		{.test = who_leaves_hands_back_what_it_has_not_used},
		{.test = who_leaves_hands_back_no_more_than_it_took,
		 .last = sizeof(rows) / sizeof(rows[0])},
		{.test = brought_units_are_used_first_and_not_handed_back},
		{.test = brought_units_that_are_used_are_gone},
		{.test = units_are_given_back},
		{.test = nothing_is_kept_where_there_is_no_next_budget},
		{.test = threads_together_keep_the_limit},
		{0},
	};

	return suite_run("budget", cases);
}
