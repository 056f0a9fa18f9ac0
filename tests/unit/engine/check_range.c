/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranges of an image that changes hold or wait for.
 */
#include "engine/io/range.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define SLOTS 4

/* A range, and whether it was granted after a wait. */
struct wish {
	struct range range; /* first: see wish_granted() */
	unsigned int granted;
};

static struct range_lock lock;
static struct range_slot slots[SLOTS];
static struct range_track track;

static void
begin(void)
{
	range_lock_init(&lock);
	range_track_add(&lock, &track, slots, SLOTS);
}

static void
end(void)
{
	ck_assert_uint_eq(atomic_load(&lock.contended), 0);
	for (unsigned int i = 0; i < RANGE_COUNTS; i++)
		ck_assert_uint_eq(atomic_load(&lock.counts[i]), 0);
	for (unsigned int i = 0; i < SLOTS; i++)
		ck_assert_uint_eq(atomic_load(&slots[i].end), 0);
	range_track_remove(&lock, &track);
	range_lock_fini(&lock);
}

static void
wish_granted(struct range *range)
{
	((struct wish *)range)->granted++;
}

/* Asks for a range.  Returns whether it was granted at once.  Without a slot, uses the queue. */
static bool
ask(struct wish *wish, uint64_t start, uint64_t end_, struct range_slot *slot)
{
	*wish = (struct wish){.range = {.start = start, .end = end_, .granted = wish_granted}};
	return range_begin(&lock, &wish->range, slot);
}

static void
give(struct wish *wish)
{
	range_end(&lock, &wish->range);
}

START_TEST(published_range_bars_all_that_overlap)
{
	struct wish holder, by_slot, by_queue;

	begin();
	ck_assert(ask(&holder, 100, 200, &slots[0]));
	ck_assert_uint_eq(atomic_load(&slots[0].start), 100);
	ck_assert_uint_eq(atomic_load(&slots[0].end), 200);
	ck_assert(!ask(&by_slot, 199, 300, &slots[1]));
	ck_assert(!ask(&by_queue, 0, 101, NULL));
	ck_assert_uint_eq(atomic_load(&slots[1].end), 0); /* it took no slot */
	ck_assert_uint_eq(by_slot.granted + by_queue.granted, 0);
	give(&holder);
	ck_assert_uint_eq(by_slot.granted, 1);
	ck_assert_uint_eq(by_queue.granted, 1);
	give(&by_slot);
	give(&by_queue);
	end();
}
END_TEST

START_TEST(queued_range_bars_all_that_overlap)
{
	struct wish holder, by_slot, by_queue;

	begin();
	ck_assert(ask(&holder, 100, 200, NULL));
	ck_assert(!ask(&by_slot, 199, 300, &slots[0]));
	ck_assert(!ask(&by_queue, 0, 101, NULL));
	give(&holder);
	ck_assert_uint_eq(by_slot.granted, 1);
	ck_assert_uint_eq(by_queue.granted, 1);
	give(&by_slot);
	give(&by_queue);
	end();
}
END_TEST

START_TEST(range_bars_nobody_beside_it)
{
	struct wish holder, before, after, queued;

	begin();
	ck_assert(ask(&holder, 100, 200, &slots[0]));
	ck_assert(ask(&before, 0, 100, &slots[1]));
	ck_assert(ask(&after, 200, 300, &slots[2]));
	ck_assert(ask(&queued, 300, 301, NULL));
	give(&queued);
	give(&after);
	give(&before);
	give(&holder);
	end();
}
END_TEST

/* Both ranges are counted in the same cell: each looks closer and finds no overlap. */
START_TEST(ranges_whose_granules_share_a_count_are_no_obstacle)
{
	struct wish here, far, wide;
	uint64_t turn = (uint64_t)RANGE_GRANULE * RANGE_COUNTS;

	begin();
	ck_assert(ask(&here, 0, RANGE_GRANULE, &slots[0]));
	ck_assert(ask(&far, turn, turn + RANGE_GRANULE, &slots[1]));
	ck_assert(ask(&wide, 2 * turn, 9 * turn, &slots[2]));
	give(&here);
	give(&far);
	give(&wide);
	end();
}
END_TEST

/* The middle, and the last byte, of a range that is wider than all cells. */
START_TEST(wide_range_bars_all_that_overlap)
{
	struct wish wide, middle, last, beside;
	uint64_t turn = (uint64_t)RANGE_GRANULE * RANGE_COUNTS;

	begin();
	ck_assert(ask(&wide, 100, 5 * turn + 7, &slots[0]));
	ck_assert(!ask(&middle, 3 * turn, 3 * turn + 1, &slots[1]));
	ck_assert(!ask(&last, 5 * turn + 6, 5 * turn + 8, &slots[1]));
	ck_assert(ask(&beside, 5 * turn + 8, 5 * turn + 9, &slots[1]));
	give(&wide);
	ck_assert_uint_eq(middle.granted, 1);
	ck_assert_uint_eq(last.granted, 1);
	give(&middle);
	give(&last);
	give(&beside);
	end();
}
END_TEST

START_TEST(one_waits_for_all_in_its_way)
{
	struct wish a, b, elsewhere, late;

	begin();
	ck_assert(ask(&a, 0, 90, &slots[0]));
	ck_assert(ask(&b, 90, 200, &slots[3]));
	ck_assert(ask(&elsewhere, 500, 600, &slots[1]));
	ck_assert(!ask(&late, 80, 120, &slots[2]));
	give(&a);
	ck_assert_uint_eq(late.granted, 0);
	give(&b);
	ck_assert_uint_eq(late.granted, 1);
	give(&late);
	give(&elsewhere);
	end();
}
END_TEST

START_TEST(those_who_wait_are_served_in_the_order_they_came)
{
	struct wish wishes[6];

	begin();
	for (unsigned int i = 0; i < 6; i++)
		ck_assert(ask(&wishes[i], 0, 100, i % 2 ? NULL : &slots[i > 0]) == (i == 0));
	for (unsigned int i = 0; i < 6; i++) {
		for (unsigned int j = 1; j < 6; j++)
			ck_assert_uint_eq(wishes[j].granted, j <= i);
		give(&wishes[i]);
	}
	end();
}
END_TEST

/* Otherwise a range of the whole image might wait for ever. */
START_TEST(nobody_overtakes_a_wide_wish_by_a_narrow_one_behind_it)
{
	struct wish left, wide, right;

	begin();
	ck_assert(ask(&left, 0, 10, &slots[0]));
	ck_assert(!ask(&wide, 0, UINT64_MAX, NULL));
	ck_assert(!ask(&right, 1000, 1010, &slots[1])); /* free, but `wide` came first */
	give(&left);
	ck_assert_uint_eq(wide.granted, 1);
	ck_assert_uint_eq(right.granted, 0);
	give(&wide);
	ck_assert_uint_eq(right.granted, 1);
	give(&right);
	end();
}
END_TEST

START_TEST(wish_elsewhere_goes_through_while_others_wait)
{
	struct wish holder, waiting, elsewhere;

	begin();
	ck_assert(ask(&holder, 0, 100, &slots[0]));
	ck_assert(!ask(&waiting, 0, 100, &slots[1]));
	ck_assert(ask(&elsewhere, 100, 200, &slots[1]));
	give(&elsewhere);
	give(&holder);
	give(&waiting);
	end();
}
END_TEST

START_TEST(slots_of_every_context_count_until_they_are_removed)
{
	struct range_slot other_slots[2] = {0};
	struct range_track other;
	struct wish here, there;

	begin();
	range_track_add(&lock, &other, other_slots, 2);
	ck_assert(ask(&there, 0, 100, &other_slots[1]));
	ck_assert(!ask(&here, 0, 100, &slots[0]));
	give(&there);
	ck_assert_uint_eq(here.granted, 1);
	give(&here);
	range_track_remove(&lock, &track);
	range_track_add(&lock, &track, slots, SLOTS);
	range_track_remove(&lock, &other);
	end();
}
END_TEST

/* ---- Threads */

enum {
	THREADS = 4,
	CELLS = 48,
	ROUNDS = 1500
};

/* For each cell of the image, about three in a granule: whether a thread holds it. */
#define CELL UINT64_C(1500)
static atomic_int owners[CELLS];
static atomic_uint waits;

struct racer {
	pthread_t thread;
	uint64_t random;
	struct range_slot slots[1];
	struct range_track track;
};

struct racing_wish {
	struct range range;
	atomic_bool granted;
};

static void
racing_wish_granted(struct range *range)
{
	atomic_store(&((struct racing_wish *)range)->granted, true);
}

static uint32_t
random_below(struct racer *racer, uint32_t limit)
{
	racer->random =
		racer->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(racer->random >> 33) % limit;
}

static void
hold(uint64_t first, uint64_t last, unsigned int pause)
{
	for (uint64_t i = first; i < last; i++)
		ck_assert_int_eq(atomic_exchange(&owners[i], 1), 0);
	while (pause-- > 0)
		sched_yield();
	for (uint64_t i = first; i < last; i++)
		ck_assert_int_eq(atomic_exchange(&owners[i], 0), 1);
}

static void *
race(void *data)
{
	struct racer *racer = data;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct racing_wish wish = {.range = {.granted = racing_wish_granted}};
		uint64_t first = random_below(racer, CELLS),
			 last = first + 1 + random_below(racer, 6);

		if (last > CELLS)
			last = CELLS;
		wish.range.start = first * CELL;
		wish.range.end = last * CELL;
		if (!range_begin(&lock, &wish.range,
				 random_below(racer, 4) == 0 ? NULL : racer->slots)) {
			atomic_fetch_add(&waits, 1);
			while (!atomic_load(&wish.granted))
				sched_yield();
		}
		hold(first, last, random_below(racer, 3));
		range_end(&lock, &wish.range);
	}
	return NULL;
}

START_TEST(no_two_threads_hold_what_overlaps)
{
	static struct racer racers[THREADS];
	struct range all = {.end = CELLS * CELL};

	range_lock_init(&lock);
	/* On a busy machine, threads that do not begin together may never conflict. */
	ck_assert(range_begin(&lock, &all, NULL));
	for (unsigned int i = 0; i < THREADS; i++) {
		racers[i].random = i + 1;
		range_track_add(&lock, &racers[i].track, racers[i].slots, 1);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
	while (atomic_load(&waits) < THREADS)
		sched_yield();
	range_end(&lock, &all);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(racers[i].thread, NULL);
	ck_assert_uint_eq(atomic_load(&lock.contended), 0);
	for (unsigned int i = 0; i < THREADS; i++)
		range_track_remove(&lock, &racers[i].track);
	range_lock_fini(&lock);
}
END_TEST

/* ---- Two threads at the same moment */

/* Two threads ask for the same range again and again; if both use slots, neither takes the mutex.
 */
struct duellist {
	struct duellist *other;
	struct range_slot *slot; /* NULL: uses the queue */
	atomic_uint round;
	atomic_bool inside;
	uint64_t random;
};

static atomic_bool both_inside, never_granted, duel_over;

static uint64_t
clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool
is_granted(void *wish)
{
	return atomic_load(&((struct racing_wish *)wish)->granted);
}

static bool
has_caught_up(void *data)
{
	struct duellist *duellist = data;

	return atomic_load(&duellist->other->round) >= atomic_load(&duellist->round) ||
	       atomic_load(&duel_over);
}

/* Spins, because sleeping threads would hardly conflict.  Returns false after 10 seconds. */
static bool
spin_until(bool (*condition)(void *), void *data)
{
	uint64_t limit = clock_ms() + 10000;

	for (unsigned int spins = 1; !condition(data); spins++) {
		if (spins % 1000)
			continue;
		sched_yield();
		if (clock_ms() > limit)
			return false;
	}
	return true;
}

static void
pause_for(unsigned int n)
{
	while (n-- > 0)
		atomic_signal_fence(memory_order_seq_cst);
}

static void *
duel(void *data)
{
	struct duellist *duellist = data;

	while (!atomic_load(&duel_over)) {
		struct racing_wish wish = {
			.range = {.start = 0, .end = 10, .granted = racing_wish_granted}};

		atomic_fetch_add(&duellist->round, 1);
		spin_until(has_caught_up, duellist);
		duellist->random = duellist->random * UINT64_C(6364136223846793005) + 1;
		pause_for((duellist->random >> 33) % 64);
		if (!range_begin(&lock, &wish.range, duellist->slot) &&
		    !spin_until(is_granted, &wish)) {
			atomic_store(&never_granted, true);
			atomic_store(&duel_over, true);
			return NULL;
		}
		atomic_store(&duellist->inside, true);
		pause_for(100);
		if (atomic_load(&duellist->other->inside))
			atomic_store(&both_inside, true);
		atomic_store(&duellist->inside, false);
		range_end(&lock, &wish.range);
	}
	return NULL;
}

START_TEST(wishes_of_the_same_moment_see_each_other)
{
	struct range_slot *const slot_of_second[] = {NULL, &slots[1]};
	static struct duellist first, second;
	uint64_t limit = clock_ms() + 300;
	pthread_t threads[2];

	begin();
	first = (struct duellist){.other = &second, .slot = &slots[0], .random = 1};
	second = (struct duellist){.other = &first, .slot = slot_of_second[_i], .random = 2};
	pthread_create(&threads[0], NULL, duel, &first);
	pthread_create(&threads[1], NULL, duel, &second);
	while (clock_ms() < limit && !atomic_load(&both_inside))
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	atomic_store(&duel_over, true);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	ck_assert_msg(!atomic_load(&both_inside), "both held the range in one of %u rounds",
		      first.round);
	ck_assert_msg(!atomic_load(&never_granted), "a wish was forgotten in round %u",
		      first.round);
	end();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "exclusion"},
		{.test = published_range_bars_all_that_overlap},
		{.test = queued_range_bars_all_that_overlap},
		{.test = range_bars_nobody_beside_it},
		{.test = ranges_whose_granules_share_a_count_are_no_obstacle},
		{.test = wide_range_bars_all_that_overlap},
		{.test = one_waits_for_all_in_its_way},
		{.test = slots_of_every_context_count_until_they_are_removed},
		{.name = "order"},
		{.test = those_who_wait_are_served_in_the_order_they_came},
		{.test = nobody_overtakes_a_wide_wish_by_a_narrow_one_behind_it},
		{.test = wish_elsewhere_goes_through_while_others_wait},
		{.name = "threads"},
		{.test = no_two_threads_hold_what_overlaps},
		{.test = wishes_of_the_same_moment_see_each_other, .last = 2},
		{0},
	};

	return suite_run("range", cases);
}
