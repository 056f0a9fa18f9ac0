/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who holds a range of an image, and who waits for it.
 */
#include "engine/range.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define SLOTS 4

/* A wish with a note of whether it was granted later. */
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

/* Asks for a range; true: granted at once. */
static bool
ask(struct wish *wish, uint64_t start, uint64_t end_, bool exclusive, struct range_slot *slot)
{
	*wish = (struct wish){
		.range = {.start = start, .end = end_, .exclusive = exclusive, .granted = wish_granted}};
	return range_begin(&lock, &wish->range, slot);
}

static void
give(struct wish *wish)
{
	range_end(&lock, &wish->range);
}

START_TEST(plain_writes_overlap_freely)
{
	struct wish a, b, c;

	begin();
	ck_assert(ask(&a, 0, 100, false, &slots[0]));
	ck_assert(ask(&b, 50, 150, false, &slots[1]));
	ck_assert(ask(&c, 0, UINT64_MAX, false, &slots[2]));
	ck_assert_uint_eq(atomic_load(&slots[1].start), 50);
	ck_assert_uint_eq(atomic_load(&slots[1].end), 150);
	give(&b);
	give(&a);
	give(&c);
	end();
}
END_TEST

START_TEST(exclusive_one_bars_plain_and_exclusive_ones_that_overlap)
{
	struct wish holder, plain, exclusive;

	begin();
	ck_assert(ask(&holder, 100, 200, true, NULL));
	ck_assert(!ask(&plain, 199, 300, false, &slots[0]));
	ck_assert(!ask(&exclusive, 0, 101, true, NULL));
	ck_assert_uint_eq(atomic_load(&slots[0].end), 0); /* it took no slot */
	ck_assert_uint_eq(plain.granted + exclusive.granted, 0);
	give(&holder);
	ck_assert_uint_eq(plain.granted, 1);
	ck_assert_uint_eq(exclusive.granted, 1);
	give(&plain);
	give(&exclusive);
	end();
}
END_TEST

START_TEST(exclusive_one_bars_nobody_beside_it)
{
	struct wish holder, before, after, exclusive;

	begin();
	ck_assert(ask(&holder, 100, 200, true, NULL));
	ck_assert(ask(&before, 0, 100, false, &slots[0]));
	ck_assert(ask(&after, 200, 300, false, &slots[1]));
	ck_assert(ask(&exclusive, 300, 301, true, NULL));
	give(&exclusive);
	give(&after);
	give(&before);
	give(&holder);
	end();
}
END_TEST

START_TEST(exclusive_one_waits_for_every_plain_one_in_its_range)
{
	struct wish a, b, elsewhere, exclusive;

	begin();
	ck_assert(ask(&a, 0, 100, false, &slots[0]));
	ck_assert(ask(&b, 90, 200, false, &slots[3]));
	ck_assert(ask(&elsewhere, 500, 600, false, &slots[1]));
	ck_assert(!ask(&exclusive, 80, 120, true, NULL));
	give(&a);
	ck_assert_uint_eq(exclusive.granted, 0);
	give(&b);
	ck_assert_uint_eq(exclusive.granted, 1);
	give(&exclusive);
	give(&elsewhere);
	end();
}
END_TEST

START_TEST(plain_writes_that_come_later_do_not_overtake_an_exclusive_one_that_waits)
{
	struct wish first, exclusive, late, later;

	begin();
	ck_assert(ask(&first, 0, 100, false, &slots[0]));
	ck_assert(!ask(&exclusive, 0, 100, true, NULL));
	ck_assert(!ask(&late, 0, 100, false, &slots[1]));
	ck_assert(!ask(&later, 50, 60, false, &slots[1]));
	give(&first);
	ck_assert_uint_eq(exclusive.granted, 1);
	ck_assert_uint_eq(late.granted + later.granted, 0);
	give(&exclusive);
	ck_assert_uint_eq(late.granted, 1);
	ck_assert_uint_eq(later.granted, 1);
	give(&late);
	give(&later);
	end();
}
END_TEST

START_TEST(those_who_wait_are_served_in_the_order_they_came)
{
	struct wish wishes[6];

	begin();
	for (unsigned int i = 0; i < 6; i++)
		ck_assert(ask(&wishes[i], 0, 100, true, NULL) == (i == 0));
	for (unsigned int i = 0; i < 6; i++) {
		for (unsigned int j = 1; j < 6; j++)
			ck_assert_uint_eq(wishes[j].granted, j <= i);
		give(&wishes[i]);
	}
	end();
}
END_TEST

/* Else one who wants everything would wait for ever. */
START_TEST(nobody_overtakes_a_wide_wish_by_a_narrow_one_behind_it)
{
	struct wish left, wide, right;

	begin();
	ck_assert(ask(&left, 0, 10, true, NULL));
	ck_assert(!ask(&wide, 0, UINT64_MAX, true, NULL));
	ck_assert(!ask(&right, 1000, 1010, true, NULL)); /* free, but `wide` came first */
	give(&left);
	ck_assert_uint_eq(wide.granted, 1);
	ck_assert_uint_eq(right.granted, 0);
	give(&wide);
	ck_assert_uint_eq(right.granted, 1);
	give(&right);
	end();
}
END_TEST

START_TEST(plain_write_elsewhere_goes_through_while_others_wait)
{
	struct wish holder, waiting, plain;

	begin();
	ck_assert(ask(&holder, 0, 100, true, NULL));
	ck_assert(!ask(&waiting, 0, 100, true, NULL));
	ck_assert(ask(&plain, 100, 200, false, &slots[0]));
	give(&plain);
	give(&holder);
	give(&waiting);
	end();
}
END_TEST

START_TEST(plain_write_granted_from_the_queue_bars_an_exclusive_one)
{
	struct wish holder, plain, exclusive;

	begin();
	ck_assert(ask(&holder, 0, 100, true, NULL));
	ck_assert(!ask(&plain, 0, 100, false, &slots[0]));
	give(&holder);
	ck_assert_uint_eq(plain.granted, 1);
	ck_assert(!ask(&exclusive, 50, 60, true, NULL));
	give(&plain);
	ck_assert_uint_eq(exclusive.granted, 1);
	give(&exclusive);
	end();
}
END_TEST

START_TEST(slots_of_every_context_count_until_they_are_removed)
{
	struct range_slot other_slots[2] = {0};
	struct range_track other;
	struct wish plain, exclusive;

	begin();
	range_track_add(&lock, &other, other_slots, 2);
	ck_assert(ask(&plain, 0, 100, false, &other_slots[1]));
	ck_assert(!ask(&exclusive, 0, 100, true, NULL));
	give(&plain);
	ck_assert_uint_eq(exclusive.granted, 1);
	give(&exclusive);
	range_track_remove(&lock, &track);
	range_track_add(&lock, &track, slots, SLOTS);
	range_track_remove(&lock, &other);
	end();
}
END_TEST

/* --- Threads --------------------------------------------------------------------------------------- */

enum { THREADS = 4, CELLS = 48, ROUNDS = 1500 };

/* For each cell of the image: -1 while an exclusive holder has it, else the number of plain ones. */
static atomic_int owners[CELLS];
static atomic_uint exclusions;

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
	racer->random = racer->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(racer->random >> 33) % limit;
}

static void
hold(const struct racing_wish *wish, unsigned int pause)
{
	bool exclusive = wish->range.exclusive;

	for (uint64_t i = wish->range.start; i < wish->range.end; i++) {
		if (exclusive)
			ck_assert_int_eq(atomic_exchange(&owners[i], -1), 0);
		else
			ck_assert_int_ge(atomic_fetch_add(&owners[i], 1), 0);
	}
	while (pause-- > 0)
		sched_yield();
	for (uint64_t i = wish->range.start; i < wish->range.end; i++) {
		if (exclusive)
			ck_assert_int_eq(atomic_exchange(&owners[i], 0), -1);
		else
			ck_assert_int_gt(atomic_fetch_sub(&owners[i], 1), 0);
	}
}

static void *
race(void *data)
{
	struct racer *racer = data;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct racing_wish wish = {.range = {.granted = racing_wish_granted}};

		wish.range.start = random_below(racer, CELLS);
		wish.range.end = wish.range.start + 1 + random_below(racer, 6);
		if (wish.range.end > CELLS)
			wish.range.end = CELLS;
		wish.range.exclusive = random_below(racer, 4) == 0;
		if (!range_begin(&lock, &wish.range, racer->slots)) {
			while (!atomic_load(&wish.granted))
				sched_yield();
		}
		atomic_fetch_add(&exclusions, wish.range.exclusive);
		hold(&wish, random_below(racer, 3));
		range_end(&lock, &wish.range);
	}
	return NULL;
}

START_TEST(no_two_threads_hold_what_excludes_each_other)
{
	static struct racer racers[THREADS];

	range_lock_init(&lock);
	for (unsigned int i = 0; i < THREADS; i++) {
		racers[i].random = i + 1;
		range_track_add(&lock, &racers[i].track, racers[i].slots, 1);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(racers[i].thread, NULL);
	ck_assert_uint_gt(atomic_load(&exclusions), THREADS * ROUNDS / 8);
	ck_assert_uint_eq(atomic_load(&lock.contended), 0);
	for (unsigned int i = 0; i < THREADS; i++)
		range_track_remove(&lock, &racers[i].track);
	range_lock_fini(&lock);
}
END_TEST

/* --- Two threads at the same moment ----------------------------------------------------------------- */

/* A plain and an exclusive wish for one range meet again and again: the plain one takes no mutex. */
struct duellist {
	struct duellist *other;
	struct range_slot *slot; /* NULL: exclusive */
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

	return atomic_load(&duellist->other->round) >= atomic_load(&duellist->round) || atomic_load(&duel_over);
}

/* Spins, since who sleeps doesn't meet anybody; false after 10 seconds. */
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
		struct racing_wish wish = {.range = {.start = 0, .end = 10, .granted = racing_wish_granted}};

		wish.range.exclusive = duellist->slot == NULL;
		atomic_fetch_add(&duellist->round, 1);
		spin_until(has_caught_up, duellist);
		duellist->random = duellist->random * UINT64_C(6364136223846793005) + 1;
		pause_for((duellist->random >> 33) % 64);
		if (!range_begin(&lock, &wish.range, duellist->slot) && !spin_until(is_granted, &wish)) {
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
	static struct duellist plain, exclusive;
	uint64_t limit = clock_ms() + 300;
	pthread_t threads[2];

	begin();
	plain = (struct duellist){.other = &exclusive, .slot = &slots[0], .random = 1};
	exclusive = (struct duellist){.other = &plain, .random = 2};
	pthread_create(&threads[0], NULL, duel, &plain);
	pthread_create(&threads[1], NULL, duel, &exclusive);
	while (clock_ms() < limit && !atomic_load(&both_inside))
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	atomic_store(&duel_over, true);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	ck_assert_msg(!atomic_load(&both_inside), "both held the range in one of %u rounds", plain.round);
	ck_assert_msg(!atomic_load(&never_granted), "a wish was forgotten in round %u", plain.round);
	end();
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("range");
	TCase *excluded = tcase_create("exclusion"), *fair = tcase_create("order"), *threads = tcase_create("threads");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(excluded, plain_writes_overlap_freely);
	tcase_add_test(excluded, exclusive_one_bars_plain_and_exclusive_ones_that_overlap);
	tcase_add_test(excluded, exclusive_one_bars_nobody_beside_it);
	tcase_add_test(excluded, exclusive_one_waits_for_every_plain_one_in_its_range);
	tcase_add_test(excluded, plain_write_granted_from_the_queue_bars_an_exclusive_one);
	tcase_add_test(excluded, slots_of_every_context_count_until_they_are_removed);
	suite_add_tcase(suite, excluded);

	tcase_add_test(fair, plain_writes_that_come_later_do_not_overtake_an_exclusive_one_that_waits);
	tcase_add_test(fair, those_who_wait_are_served_in_the_order_they_came);
	tcase_add_test(fair, nobody_overtakes_a_wide_wish_by_a_narrow_one_behind_it);
	tcase_add_test(fair, plain_write_elsewhere_goes_through_while_others_wait);
	suite_add_tcase(suite, fair);

	tcase_add_test(threads, no_two_threads_hold_what_excludes_each_other);
	tcase_add_test(threads, wishes_of_the_same_moment_see_each_other);
	suite_add_tcase(suite, threads);

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
