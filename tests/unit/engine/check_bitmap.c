/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/bitmap.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define GRANULE  4096u
#define GRANULES 200u
#define BYTES    (GRANULES * GRANULE - 512) /* the last granule is not whole */

static bool model[GRANULES];
static struct bitmap *bitmap;

static void
begin(void)
{
	memset(model, 0, sizeof(model));
	bitmap = bitmap_new(BYTES, GRANULE);
	ck_assert_ptr_nonnull(bitmap);
}

static void
end(void)
{
	free(bitmap);
}

static void
mark(uint64_t from, uint64_t to)
{
	bitmap_mark(bitmap, from, to);
	for (uint64_t i = from / GRANULE; i <= (to - 1) / GRANULE && i < GRANULES; i++)
		model[i] = true;
}

/* Walks from `start` to `limit`; all runs agree with the model, and none could be longer. */
static void
compare(uint64_t start, uint64_t limit, uint64_t covered)
{
	int before = -1;

	for (uint64_t at = start, next; at < limit; at = next) {
		bool marked = bitmap_run(bitmap, at, limit, &next);

		ck_assert_uint_gt(next, at);
		ck_assert_uint_le(next, limit);
		ck_assert_int_ne(marked, before);
		before = marked;
		for (uint64_t byte = at; byte < next; byte += GRANULE / 2)
			ck_assert_int_eq(marked, byte >= covered || model[byte / GRANULE]);
	}
}

START_TEST(copy_has_the_marks_of_one_moment)
{
	struct bitmap *original, *copy;

	mark(0, 1);
	mark(63 * GRANULE, 66 * GRANULE);
	mark(BYTES - 1, BYTES);
	copy = bitmap_new(BYTES, GRANULE);
	ck_assert_ptr_nonnull(copy);
	bitmap_limit(bitmap, BYTES - 20 * GRANULE);
	bitmap_copy(copy, bitmap);
	original = bitmap;
	bitmap_mark(original, 100 * GRANULE, 101 * GRANULE);
	bitmap_limit(original, 0);
	bitmap = copy;
	compare(0, BYTES, BYTES - 20 * GRANULE);
	free(original);
}
END_TEST

START_TEST(new_bitmap_has_no_mark)
{
	uint64_t next;

	ck_assert(!bitmap_run(bitmap, 0, BYTES, &next));
	ck_assert_uint_eq(next, BYTES);
	ck_assert(!bitmap_run(bitmap, 1536, 2048, &next));
	ck_assert_uint_eq(next, 2048);
}
END_TEST

START_TEST(bytes_beyond_the_end_are_marked)
{
	uint64_t next;

	ck_assert(!bitmap_run(bitmap, 0, 2 * BYTES, &next));
	ck_assert_uint_eq(next, BYTES);
	ck_assert(bitmap_run(bitmap, BYTES, 2 * BYTES, &next));
	ck_assert_uint_eq(next, 2 * BYTES);
	mark(BYTES - 1, BYTES);
	ck_assert(bitmap_run(bitmap, BYTES - 512, 2 * BYTES, &next));
	ck_assert_uint_eq(next, 2 * BYTES);
	bitmap_mark(bitmap, 4 * (uint64_t)BYTES, UINT64_MAX);
	compare(0, BYTES, BYTES);
}
END_TEST

START_TEST(marks_agree_with_a_model)
{
	srand((unsigned int)_i);
	for (unsigned int i = 0; i < 12; i++) {
		uint64_t from = (uint64_t)rand() % BYTES;
		uint64_t most = i % 8 ? 2 * GRANULE : 90 * GRANULE;

		mark(from, from + 1 + (uint64_t)rand() % most);
		compare(0, BYTES, BYTES);
		compare(from & ~UINT64_C(511), 2 * BYTES, BYTES);
	}
}
END_TEST

START_TEST(what_a_smaller_size_cut_off_stays_marked)
{
	mark(GRANULE, 2 * GRANULE);
	bitmap_limit(bitmap, 100 * GRANULE + 512);
	compare(0, BYTES, 100 * GRANULE + 512);
	bitmap_limit(bitmap, BYTES);
	compare(0, BYTES, 100 * GRANULE + 512);
	bitmap_limit(bitmap, 0);
	compare(0, BYTES, 0);
}
END_TEST

START_TEST(bitmap_of_nothing_counts_as_marked)
{
	struct bitmap *empty = bitmap_new(0, GRANULE);
	uint64_t next;

	ck_assert_ptr_nonnull(empty);
	bitmap_mark(empty, 0, 10);
	ck_assert(bitmap_run(empty, 0, 10, &next));
	ck_assert_uint_eq(next, 10);
	free(empty);
}
END_TEST

START_TEST(marks_are_read_and_added_as_words)
{
	struct bitmap *from = bitmap_new(100 * 4096, 4096), *copy;
	uint64_t words[3];

	bitmap_mark(from, 4096, 4097);
	bitmap_mark(from, 99 * 4096, 200 * 4096);
	ck_assert_uint_eq(bitmap_granules(from), 100);
	ck_assert_uint_eq(bitmap_covered(from), 100 * 4096);
	bitmap_read(from, 0, 3, words);
	ck_assert_uint_eq(words[0], 2);
	ck_assert_uint_eq(words[1], UINT64_C(1) << 35);
	ck_assert_uint_eq(words[2], 0);
	copy = bitmap_new(100 * 4096, 4096);
	bitmap_mark(copy, 0, 1);
	bitmap_add(copy, 0, 3, words);
	ck_assert(bitmap_has(copy, 0, 2 * 4096));
	ck_assert(!bitmap_has(copy, 0, 2 * 4096 + 1));
	ck_assert(bitmap_has(copy, 99 * 4096, UINT64_MAX));
	ck_assert(!bitmap_has(copy, 98 * 4096, UINT64_MAX));
	ck_assert(bitmap_has(copy, 100 * 4096, 101 * 4096));
	free(from);
	free(copy);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "bitmap", .begin = begin, .end = end},
		{.test = copy_has_the_marks_of_one_moment},
		{.test = new_bitmap_has_no_mark},
		{.test = bytes_beyond_the_end_are_marked},
		{.test = marks_agree_with_a_model, .last = 4},
		{.test = what_a_smaller_size_cut_off_stays_marked},
		{.test = bitmap_of_nothing_counts_as_marked},
		{.test = marks_are_read_and_added_as_words},
		{0},
	};

	return suite_run("bitmap", cases);
}
