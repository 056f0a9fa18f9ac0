/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/limit/budget.h"

#define SECOND 1000000000.0

/* A portion is what may be used in this time: longer than a thread is late as a rule, or the late
 * one would lose its turn; and short, since it is how long a client waits for each of the others.
 */
#define PORTION_NS 4000000.0

/* 31 years: no later sum overflows. */
#define NS_MAX 1e18

static uint64_t
time_of(uint64_t units, uint64_t rate)
{
	double ns = (double)units * SECOND / (double)rate;

	return ns < 1        ? 1
	       : ns > NS_MAX ? (uint64_t)NS_MAX
			     : (uint64_t)ns + ((double)(uint64_t)ns < ns);
}

/* The caller's time as the budget counts it: a burst later, because a rested budget has all time of
 * a burst before now to hand out, and the clock may have begun just now, as after a boot. */
static uint64_t
own_time(const struct budget *budget, uint64_t time)
{
	return time + budget->slack;
}

void
budget_init(struct budget *budget, uint64_t rate, uint64_t burst, uint64_t least, uint64_t begun)
{
	uint64_t portion = (uint64_t)((double)rate * (PORTION_NS / SECOND));
	uint64_t whole;

	if (burst == 0)
		burst = rate / 10;
	if (portion < least)
		portion = least;
	/* With smaller portions, a thread that is late for each would get little of the rate. */
	if (burst < portion)
		burst = portion;
	budget->portion = portion;
	budget->interval = time_of(portion, rate);
	whole = time_of(burst, rate);
	budget->slack = whole > budget->interval ? whole - budget->interval : 0;
	atomic_init(&budget->handed_out, begun ? own_time(budget, begun) : 0);
}

/* Reserves the time for up to `portions` portions: one, or as many as are there now. */
static void
budget_reserve(struct budget *budget, struct share *share, uint64_t portions, uint64_t now)
{
	const uint64_t first = now ? now : 1, last = own_time(budget, now);
	uint64_t before = atomic_load_explicit(&budget->handed_out, memory_order_relaxed);
	uint64_t begin, count;

	do {
		begin = before > first ? before : first;
		count = begin <= last ? (last - begin) / budget->interval + 1 : 1;
		if (count > portions)
			count = portions;
	} while (!atomic_compare_exchange_weak_explicit(
		&budget->handed_out, &before, begin + count * budget->interval,
		memory_order_relaxed, memory_order_relaxed));
	share->ticket = begin;
	share->coming = count * budget->portion;
}

uint64_t
budget_fill(struct budget *budget, struct share *share, uint64_t units, uint64_t now,
	    uint64_t until)
{
	while (share->units < units) {
		uint64_t missing = units - share->units;

		if (!share->ticket)
			budget_reserve(budget, share, (missing - 1) / budget->portion + 1, now);
		if (share->ticket > own_time(budget, until))
			return share->ticket - budget->slack;
		share->units += share->coming;
		share->ticket = share->coming = 0;
	}
	return 0;
}

bool
budget_is_rested(const struct budget *budget, uint64_t now)
{
	return atomic_load_explicit(&budget->handed_out, memory_order_relaxed) <= now;
}

/* The time of units that are less than what is reserved at once; rounded down. */
static uint64_t
time_of_units(const struct budget *budget, uint64_t units)
{
	uint64_t whole = units / budget->portion * budget->interval, rest = units % budget->portion;

	/* Units are that short only where a portion has far more of them than nanoseconds. */
	if (rest > UINT64_MAX / budget->interval)
		return whole + rest / (budget->portion / budget->interval + 1);
	return whole + rest * budget->interval / budget->portion;
}

void
budget_leave(struct budget *budget, struct share *share)
{
	uint64_t units = share->units > share->brought ? share->units - share->brought : 0;

	/* Those that wait after its ticket keep theirs, and new ones come earlier. */
	units += share->coming;
	if (units)
		atomic_fetch_sub_explicit(&budget->handed_out, time_of_units(budget, units),
					  memory_order_relaxed);
	*share = (struct share){0};
}

void
budget_change(struct budget *budget, const struct budget *next, struct share *share, uint64_t most)
{
	uint64_t kept = share->units < most ? share->units : most;

	if (!next)
		kept = 0;
	budget_pay(share, kept);
	budget_leave(budget, share);
	share->units = share->brought = kept;
}
