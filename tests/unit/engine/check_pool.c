/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which thread gets which context.
 */
#include "engine/context/pool.h"

#include "tests/lib/suite.h"
#include "tests/unit/engine/pool_fixture.h"

#include <check.h>

START_TEST(thread_gets_the_context_that_it_had)
{
	struct ioctx *ctx;

	open_limited(0);
	ctx = take();
	ck_assert_ptr_nonnull(ctx);
	give(ctx);
	for (unsigned int i = 0; i < 3; i++) {
		ck_assert_ptr_eq(take(), ctx);
		give(ctx);
	}
	ck_assert_uint_eq(context_count(disk.image), 1);
	close_disk();
}
END_TEST

START_TEST(threads_keep_to_contexts_of_their_own)
{
	struct taker other;
	struct ioctx *mine, *its;

	open_limited(0);
	taker_start(&other);
	mine = take();
	taker_order(&other, TAKE);
	its = taker_context(&other);
	ck_assert_ptr_ne(mine, its);
	give(mine);
	taker_give(&other);
	for (unsigned int i = 0; i < 3; i++) {
		taker_order(&other, TAKE);
		ck_assert_ptr_eq(taker_context(&other), its);
		taker_give(&other);
		ck_assert_ptr_eq(take(), mine);
		give(mine);
	}
	taker_end(&other);
	ck_assert_uint_eq(context_count(disk.image), 2);
	close_disk();
}
END_TEST

START_TEST(idle_context_of_a_living_thread_is_left_to_it)
{
	struct taker other;
	struct ioctx *mine;

	open_limited(0);
	mine = take();
	give(mine);
	taker_start(&other);
	taker_order(&other, TAKE);
	ck_assert_ptr_ne(taker_context(&other), mine);
	taker_give(&other);
	taker_end(&other);
	close_disk();
}
END_TEST

START_TEST(thread_that_takes_two_gets_two)
{
	struct ioctx *first, *second_;

	open_limited(0);
	first = take();
	second_ = take();
	ck_assert_ptr_ne(first, second_);
	give(first);
	give(second_);
	ck_assert_ptr_eq(take(), first);
	give(first);
	close_disk();
}
END_TEST

START_TEST(context_of_an_ended_thread_is_used_again)
{
	struct ioctx *mine;

	open_limited(0);
	mine = take();
	for (unsigned int i = 0; i < 50; i++) {
		struct taker taker;

		taker_start(&taker);
		taker_order(&taker, TAKE);
		ck_assert_ptr_nonnull(taker_context(&taker));
		taker_give(&taker);
		taker_end(&taker);
	}
	give(mine);
	ck_assert_uint_eq(context_count(disk.image), 2);
	close_disk();
}
END_TEST

START_TEST(thread_that_alternates_between_images_needs_one_context_of_each)
{
	struct fake_image other;

	open_limited(0);
	fake_image_open(&other, &(struct fake_facts){.depth = 1});
	for (unsigned int i = 0; i < 20; i++) {
		struct ioctx *ctx = take(), *its = pool_take(other.image);

		ck_assert_ptr_eq(ctx->image, disk.image);
		ck_assert_ptr_eq(its->image, other.image);
		pool_give(other.image, its);
		give(ctx);
	}
	ck_assert_uint_eq(context_count(disk.image), 1);
	ck_assert_uint_eq(context_count(other.image), 1);
	fake_image_close(&other);
	close_disk();
}
END_TEST

START_TEST(context_of_a_closed_image_is_not_taken_for_a_new_ones)
{
	for (unsigned int i = 0; i < 10; i++) {
		struct ioctx *ctx;

		open_limited(0); /* likely at the address of the one before */
		ctx = take();
		ck_assert_ptr_eq(ctx->image, disk.image);
		ck_assert_uint_eq(context_count(disk.image), 1);
		give(ctx);
		close_disk();
	}
}
END_TEST

START_TEST(thread_may_end_after_its_image_is_closed)
{
	struct fake_image other;
	struct taker taker;

	fake_image_open(&other, &(struct fake_facts){.depth = 1});
	open_limited(0);
	taker_start(&taker);
	taker_order(&taker, TAKE);
	ck_assert_ptr_nonnull(taker_context(&taker));
	taker_give(&taker);
	close_disk();
	taker_end(&taker);
	fake_image_close(&other);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "warm"},
		{.test = thread_gets_the_context_that_it_had},
		{.test = threads_keep_to_contexts_of_their_own},
		{.test = idle_context_of_a_living_thread_is_left_to_it},
		{.test = thread_that_takes_two_gets_two},
		{.test = context_of_an_ended_thread_is_used_again},

		{.name = "images"},
		{.test = thread_that_alternates_between_images_needs_one_context_of_each},
		{.test = context_of_a_closed_image_is_not_taken_for_a_new_ones},
		{.test = thread_may_end_after_its_image_is_closed},
		{0},
	};

	return suite_run("pool", cases);
}
