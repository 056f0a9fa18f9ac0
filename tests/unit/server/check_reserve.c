/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reserved memory: all of it exists from the start, none is added, and it is whole again when every
 * buffer was given back.
 */
#include "server/memory/reserve.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define KIB     ((size_t)1024)
#define MIB     (KIB * KIB)
#define LARGEST (RESERVE_ORDERS - 1)
#define BLOCKS  1000

static struct reserve *set_aside;

static void
open_64m(void)
{
	set_aside = reserve_new(64 * MIB);
	ck_assert_ptr_nonnull(set_aside);
}

static void
close_all(void)
{
	reserve_free(set_aside);
}

static size_t
size_of(unsigned int order)
{
	return 4 * KIB << order;
}

START_TEST(all_of_it_can_be_taken_and_no_more)
{
	const unsigned int order = (unsigned int)_i;
	size_t count = 64 * MIB / size_of(order);
	void **blocks = calloc(count, sizeof(*blocks));

	ck_assert_ptr_nonnull(blocks);
	for (size_t i = 0; i < count; i++) {
		blocks[i] = reserve_take(set_aside, order);
		ck_assert_ptr_nonnull(blocks[i]);
		ck_assert_uint_eq((uintptr_t)blocks[i] % 4096, 0);
	}
	ck_assert_ptr_null(reserve_take(set_aside, order));
	ck_assert_ptr_null(reserve_take(set_aside, 0));
	for (size_t i = 0; i < count; i++)
		reserve_give(set_aside, blocks[i], order);
	free(blocks);
}
END_TEST

START_TEST(what_goes_beyond_a_multiple_is_left_out)
{
	struct reserve *odd = reserve_new(33 * MIB + 1);
	void *block = reserve_take(odd, LARGEST);

	ck_assert_ptr_nonnull(block);
	ck_assert_ptr_null(reserve_take(odd, 0));
	reserve_give(odd, block, LARGEST);
	reserve_free(odd);
}
END_TEST

static struct block {
	unsigned char *memory;
	unsigned int order;
	unsigned char mark;
} blocks[BLOCKS];

static void
give(struct block *block)
{
	size_t size = size_of(block->order);

	ck_assert_uint_eq(block->memory[0], block->mark);
	ck_assert_uint_eq(block->memory[size / 2], block->mark);
	ck_assert_uint_eq(block->memory[size - 1], block->mark);
	reserve_give(set_aside, block->memory, block->order);
	block->memory = NULL;
}

static void
take(struct block *block, unsigned int order, unsigned char mark)
{
	block->memory = reserve_take(set_aside, order);
	block->order = order;
	block->mark = mark;
	if (block->memory)
		memset(block->memory, mark, size_of(order));
}

START_TEST(blocks_keep_what_is_written_and_become_whole_again)
{
	void *largest[2];

	srand(1);
	for (unsigned int round = 0; round < 20000; round++) {
		struct block *block = &blocks[rand() % BLOCKS];

		if (block->memory)
			give(block);
		else
			take(block, (unsigned int)rand() % 7, (unsigned char)round);
	}
	for (unsigned int i = 0; i < BLOCKS; i++) {
		if (blocks[i].memory)
			give(&blocks[i]);
	}
	for (unsigned int i = 0; i < 2; i++) {
		largest[i] = reserve_take(set_aside, LARGEST);
		ck_assert_ptr_nonnull(largest[i]);
	}
	for (unsigned int i = 0; i < 2; i++)
		reserve_give(set_aside, largest[i], LARGEST);
}
END_TEST

/* A sanitizer has memory of its own for each piece that is written. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
START_TEST(taking_and_writing_makes_no_page_fault)
{
	struct rusage before, after;
	void *block;

	/* Memory of the test itself. */
	block = reserve_take(set_aside, 0);
	memset(block, 1, size_of(0));
	reserve_give(set_aside, block, 0);
	getrusage(RUSAGE_SELF, &before);
	block = reserve_take(set_aside, LARGEST);
	memset(block, 1, size_of(LARGEST));
	reserve_give(set_aside, block, LARGEST);
	getrusage(RUSAGE_SELF, &after);
	ck_assert_int_lt(after.ru_minflt - before.ru_minflt, 10);
}
END_TEST

/* Why the test above can't run here, or NULL. */
static const char *
no_populated_memory(void)
{
	size_t length = 4 << 20;
	struct rusage before, after;
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED)
		return "no memory";
	getrusage(RUSAGE_SELF, &before);
	memset(memory, 1, length);
	getrusage(RUSAGE_SELF, &after);
	munmap(memory, length);
	return after.ru_minflt - before.ru_minflt < 10
		       ? NULL
		       : "MAP_POPULATE does nothing (qemu-user leaves it out)";
}
#endif

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "reserve", .begin = open_64m, .end = close_all},
		{.test = all_of_it_can_be_taken_and_no_more, .last = RESERVE_ORDERS},
		{.test = what_goes_beyond_a_multiple_is_left_out},
		{.test = blocks_keep_what_is_written_and_become_whole_again},
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		{.test = taking_and_writing_makes_no_page_fault, .reason = no_populated_memory()},
#endif
		{0},
	};

	return suite_run("reserve", cases);
}
