/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers for the data of requests: aligned, reused, never more than the limit.
 */
#include "server/memory/buffers.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <stdint.h>
#include <string.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)

static struct buffers buffers;

START_TEST(buffer_has_room_for_its_length_and_is_aligned)
{
	static const size_t lengths[] = {1, 4096, 4097, 65536, 65537, MIB, 32 * MIB};
	struct buffer buffer;

	buffers_init(&buffers, 64 * MIB, NULL);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		ck_assert(buffers_take(&buffers, lengths[i], &buffer));
		ck_assert_uint_eq((uintptr_t)buffer.memory % 4096, 0);
		memset(buffer.memory, 1, lengths[i]);
		buffers_give(&buffers, &buffer);
		ck_assert_ptr_null(buffer.memory);
	}
	buffers_fini(&buffers);
}
END_TEST

START_TEST(buffers_in_use_do_not_overlap)
{
	struct buffer taken[600];

	buffers_init(&buffers, 64 * MIB, NULL);
	for (unsigned int i = 0; i < 600; i++) {
		ck_assert(buffers_take(&buffers, 8192, &taken[i]));
		memset(taken[i].memory, (int)(i % 251), 8192);
	}
	for (unsigned int i = 0; i < 600; i++) {
		const unsigned char *bytes = taken[i].memory;

		ck_assert_uint_eq(bytes[0], i % 251);
		ck_assert_uint_eq(bytes[8191], i % 251);
		buffers_give(&buffers, &taken[i]);
	}
	buffers_fini(&buffers);
}
END_TEST

START_TEST(given_back_buffer_is_taken_again)
{
	struct buffer small, large;
	void *memory;

	buffers_init(&buffers, 64 * MIB, NULL);
	ck_assert(buffers_take(&buffers, 4096, &small));
	ck_assert(buffers_take(&buffers, MIB, &large));
	memory = large.memory;
	buffers_give(&buffers, &large);
	ck_assert(buffers_take(&buffers, MIB - 1, &large));
	ck_assert_ptr_eq(large.memory, memory);
	buffers_give(&buffers, &large);
	buffers_give(&buffers, &small);
	buffers_fini(&buffers);
}
END_TEST

START_TEST(limit_holds_until_something_is_given_back)
{
	struct buffer first, second, third;

	buffers_init(&buffers, 32 * MIB, NULL);
	ck_assert(buffers_take(&buffers, 16 * MIB, &first));
	ck_assert(buffers_take(&buffers, 16 * MIB, &second));
	ck_assert(!buffers_take(&buffers, 1, &third));
	buffers_give(&buffers, &first);
	ck_assert(!buffers_take(&buffers, 16 * MIB + 1, &third));
	ck_assert(buffers_take(&buffers, 1, &third));
	buffers_give(&buffers, &third);
	buffers_give(&buffers, &second);
	buffers_fini(&buffers);
}
END_TEST

START_TEST(longest_request_is_served_when_it_is_alone)
{
	struct buffer idle[3], longest;

	/* Idle buffers of other sizes are unmapped to make room. */
	buffers_init(&buffers, 32 * MIB, NULL);
	for (unsigned int i = 0; i < 3; i++)
		ck_assert(buffers_take(&buffers, 8 * MIB, &idle[i]));
	for (unsigned int i = 0; i < 3; i++)
		buffers_give(&buffers, &idle[i]);
	ck_assert_uint_eq(buffers.mapped, 24 * MIB);
	ck_assert(buffers_take(&buffers, 32 * MIB, &longest));
	ck_assert_uint_eq(buffers.mapped, 32 * MIB);
	memset(longest.memory, 1, 32 * MIB);
	buffers_give(&buffers, &longest);
	buffers_fini(&buffers);
}
END_TEST

/* And its memory is not kept. */
START_TEST(request_longer_than_is_advertised_takes_its_part_of_the_limit)
{
	struct buffer long_one, other;

	buffers_init(&buffers, 128 * MIB, NULL);
	ck_assert_uint_eq(buffers_longest(&buffers), 64 * MIB);
	ck_assert(buffers_take(&buffers, 32 * MIB, &other));
	ck_assert(buffers_take(&buffers, 64 * MIB, &long_one));
	memset(long_one.memory, 1, 64 * MIB);
	ck_assert(!buffers_take(&buffers, 33 * MIB, &(struct buffer){0}));
	buffers_give(&buffers, &other);
	ck_assert(buffers_take(&buffers, 33 * MIB, &other));
	buffers_give(&buffers, &long_one);
	buffers_give(&buffers, &other);
	ck_assert_uint_le(buffers.mapped, 32 * MIB);
	buffers_fini(&buffers);
	buffers_init(&buffers, 32 * MIB, NULL);
	ck_assert_uint_eq(buffers_longest(&buffers), 32 * MIB);
	buffers_fini(&buffers);
}
END_TEST

START_TEST(those_made_beforehand_are_one_piece_of_memory)
{
	struct buffer small[2], large, longest;
	const char *first;

	buffers_init(&buffers, 32 * MIB, NULL);
	ck_assert_int_eq(buffers_reserve(&buffers), 0);
	ck_assert(buffers_take(&buffers, 32 * MIB, &longest));
	first = longest.memory;
	memset(longest.memory, 1, 32 * MIB);
	ck_assert(!buffers_take(&buffers, 1, &small[0]));
	buffers_give(&buffers, &longest);
	ck_assert(buffers_take(&buffers, 1, &small[0]));
	ck_assert(buffers_take(&buffers, 5000, &small[1]));
	ck_assert(buffers_take(&buffers, 16 * MIB, &large));
	ck_assert(!buffers_take(&buffers, 16 * MIB, &longest));
	ck_assert((char *)large.memory >= first &&
		  (char *)large.memory + 16 * MIB <= first + 32 * MIB);
	ck_assert((char *)small[1].memory >= first && (char *)small[1].memory < first + 32 * MIB);
	buffers_give(&buffers, &small[0]);
	buffers_give(&buffers, &large);
	buffers_give(&buffers, &small[1]);
	ck_assert(buffers_take(&buffers, 32 * MIB, &longest));
	ck_assert_ptr_eq(longest.memory, first);
	/* Memory beyond the reserve is not kept, because locked memory was counted at the
	 * start. */
	for (size_t length = 4096; length <= MIB; length *= 4) {
		ck_assert(buffers_take_first(&buffers, length, &large));
		buffers_give(&buffers, &large);
		ck_assert_uint_eq(buffers.mapped, 0);
	}
	buffers_give(&buffers, &longest);
	buffers_fini(&buffers);
}
END_TEST

/* Clients that took no replies kept all buffers, and all other clients waited. */
START_TEST(who_has_none_gets_a_small_one_beyond_the_limit)
{
	struct buffer all, first, other;

	buffers_init(&buffers, 32 * MIB, NULL);
	ck_assert(buffers_take(&buffers, 32 * MIB, &all));
	ck_assert(!buffers_take(&buffers, 1, &other));
	ck_assert(buffers_take_first(&buffers, BUFFER_SPARE, &first));
	memset(first.memory, 1, BUFFER_SPARE);
	ck_assert(buffers_take_first(&buffers, 4096, &other));
	buffers_give(&buffers, &other);
	ck_assert(!buffers_take_first(&buffers, BUFFER_SPARE + 1, &other));
	buffers_give(&buffers, &first);
	ck_assert(!buffers_take(&buffers, 1, &other));
	buffers_give(&buffers, &all);
	ck_assert(buffers_take_first(&buffers, 32 * MIB, &all));
	buffers_give(&buffers, &all);
	buffers_fini(&buffers);
}
END_TEST

static unsigned int
take_all(size_t length, struct buffer *taken, unsigned int room)
{
	unsigned int count = 0;

	while (count < room && buffers_take(&buffers, length, &taken[count])) {
		memset(taken[count++].memory, 1, length);
		ck_assert_uint_le(buffers.mapped, buffers.limit + buffers.taken);
	}
	return count;
}

/* Small buffers were never unmapped: a client that used up one size after another made the server
 * map five times the limit. */
START_TEST(idle_ones_of_all_sizes_make_room_for_others)
{
	static const size_t lengths[] = {4096, 8192, 16384,    32768, 65536,
					 MIB,  4096, 32 * MIB, 16384};
	static struct buffer taken[32 * MIB / 4096 + 1];

	buffers_init(&buffers, 32 * MIB, NULL);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		unsigned int count = take_all(lengths[i], taken, 32 * MIB / 4096 + 1);

		ck_assert_uint_eq(count, 32 * MIB / lengths[i]);
		/* Parts of slabs don't fill them. */
		ck_assert_uint_le(buffers.mapped, 34 * MIB);
		while (count > 0)
			buffers_give(&buffers, &taken[--count]);
		ck_assert_uint_le(buffers.mapped, 32 * MIB);
	}
	buffers_fini(&buffers);
}
END_TEST

START_TEST(parts_that_are_kept_keep_only_what_the_limit_allows)
{
	static struct buffer taken[32 * MIB / 4096 + 1];
	struct buffer kept[4][64] = {{{0}}};

	buffers_init(&buffers, 32 * MIB, NULL);
	/* One of each slab. */
	for (unsigned int size = 0; size < 4; size++) {
		unsigned int count = take_all((size_t)4096 << size, taken, 32 * MIB / 4096 + 1);
		unsigned int each = (unsigned int)(MIB / ((size_t)4096 << size)), n = 0;

		for (unsigned int i = 0; i < count; i++) {
			if (i % each == 0 && n < 64)
				kept[size][n++] = taken[i];
			else
				buffers_give(&buffers, &taken[i]);
		}
		ck_assert_uint_le(buffers.mapped, buffers.limit + buffers.taken);
	}
	ck_assert(buffers_take(&buffers, 16 * MIB, &taken[0]));
	buffers_give(&buffers, &taken[0]);
	ck_assert_uint_le(buffers.mapped, buffers.limit + buffers.taken);
	for (unsigned int i = 0; i < 4 * 64; i++)
		buffers_give(&buffers, &kept[i / 64][i % 64]);
	ck_assert_uint_eq(buffers.taken, 0);
	ck_assert_uint_le(buffers.mapped, buffers.limit);
	buffers_fini(&buffers);
}
END_TEST

START_TEST(none_can_be_given_back)
{
	struct buffer none = {0};

	buffers_init(&buffers, 32 * MIB, NULL);
	buffers_not_filled(&none);
	buffers_give(&buffers, &none);
	ck_assert_uint_eq(buffers.taken, 0);
	buffers_fini(&buffers);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "buffers"},
		{.test = buffer_has_room_for_its_length_and_is_aligned},
		{.test = buffers_in_use_do_not_overlap},
		{.test = given_back_buffer_is_taken_again},
		{.test = limit_holds_until_something_is_given_back},
		{.test = longest_request_is_served_when_it_is_alone},
		{.test = request_longer_than_is_advertised_takes_its_part_of_the_limit},
		{.test = those_made_beforehand_are_one_piece_of_memory},
		{.test = who_has_none_gets_a_small_one_beyond_the_limit},
		{.test = idle_ones_of_all_sizes_make_room_for_others},
		{.test = parts_that_are_kept_keep_only_what_the_limit_allows},
		{.test = none_can_be_given_back},
		{0},
	};

	return suite_run("buffers", cases);
}
