/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/io/arena.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PIECES 9

static void
take_pieces(struct arena *arena, char *pieces[PIECES])
{
	for (unsigned int i = 0; i < PIECES; i++) {
		pieces[i] = arena_take(arena);
		ck_assert_ptr_nonnull(pieces[i]);
		ck_assert_uint_eq((uintptr_t)pieces[i] % 4096, 0);
		memset(pieces[i], (int)i, arena->piece);
	}
}

static void
check_pieces(struct arena *arena, char *pieces[PIECES])
{
	char *expected = malloc(arena->piece);

	ck_assert_ptr_nonnull(expected);
	for (unsigned int i = 0; i < PIECES; i++) {
		memset(expected, (int)i, arena->piece);
		ck_assert_mem_eq(pieces[i], expected, arena->piece);
		arena_give(arena, pieces[i]);
	}
	free(expected);
}

/* Smaller than a huge page, not a part of one, larger than one. */
static const size_t sizes[] = {128 << 10, 1 << 20, 896 << 10, 3 << 20};

START_TEST(pieces_are_page_aligned_and_do_not_overlap)
{
	struct arena arena;
	char *pieces[PIECES];

	arena_init(&arena, sizes[_i]);
	take_pieces(&arena, pieces);
	check_pieces(&arena, pieces);
	arena_fini(&arena);
}
END_TEST

START_TEST(pieces_given_back_are_used_again)
{
	struct arena arena;
	char *pieces[PIECES], *again[PIECES];

	arena_init(&arena, sizes[_i]);
	take_pieces(&arena, pieces);
	for (unsigned int i = 0; i < PIECES; i++)
		arena_give(&arena, pieces[i]);
	take_pieces(&arena, again);
	for (unsigned int i = 0; i < PIECES; i++)
		ck_assert_ptr_eq(again[i], pieces[PIECES - 1 - i]);
	check_pieces(&arena, again);
	arena_fini(&arena);
}
END_TEST

int
main(void)
{
	const int count = sizeof(sizes) / sizeof(sizes[0]);
	const struct suite_row cases[] = {
		{.name = "arena"},
		{.test = pieces_are_page_aligned_and_do_not_overlap, .last = count},
		{.test = pieces_given_back_are_used_again, .last = count},
		{0},
	};

	return suite_run("arena", cases);
}
