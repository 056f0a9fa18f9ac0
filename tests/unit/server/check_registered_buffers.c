/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers for the data of requests are registered with a ring.
 */
#include "server/memory/buffers.h"

#include "engine/backend/choice.h"
#include "engine/backend/ring.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)

static struct buffers buffers;
static struct ring ring;

static void
begin_ring(void)
{
	char reason[REASON_MAX];
	int r = backend_works(ENGINE_IO_URING, reason);

	if (r == 0)
		r = ring_init(&ring, 4, 4, 0, 0);
	if (r == 0)
		ring_offer_memory(&ring);
	if (r < 0 || !ring.memory.count) {
		printf("SKIP: registered: %s\n", r < 0 ? reason : atomic_load(&ring.unregistered));
		exit(77);
	}
	buffers_init(&buffers, 32 * MIB, &ring);
	buffers.registers_large = true;
}

static unsigned int
places_taken(void)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < ring.memory.count; i++)
		count += ring.memory.taken[i];
	return count;
}

static void
end_ring(void)
{
	buffers_fini(&buffers);
	ck_assert_uint_eq(places_taken(), 0);
	ring_fini(&ring);
}

static bool
is_registered(const struct buffer *buffer, size_t length)
{
	return registered_place(buffer->registered, buffer->memory, length) >= 0;
}

static void
read_ended(struct completion *completion, int result)
{
	(void)completion;
	ck_assert_int_eq(result, 1);
}

START_TEST(slab_is_registered_in_the_next_turn)
{
	static const size_t lengths[] = {4096, 32 * KIB, 64 * KIB, MIB};
	struct buffer taken[2];

	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		ck_assert(buffers_take(&buffers, lengths[i], &taken[0]));
		ck_assert(!is_registered(&taken[0], 1));
		ck_assert_uint_eq(buffers.unregistered, 1);
		buffers_register(&buffers);
		ck_assert_uint_eq(buffers.unregistered, 0);
		ck_assert(is_registered(&taken[0], lengths[i]));
		ck_assert(buffers_take(&buffers, lengths[i], &taken[1]));
		ck_assert_uint_eq(buffers.unregistered, 0);
		ck_assert(is_registered(&taken[1], lengths[i]));
		ck_assert_uint_eq(places_taken(), i + 1);
		buffers_give(&buffers, &taken[0]);
		buffers_give(&buffers, &taken[1]);
	}
}
END_TEST

/* So that the loop does not stand still. */
START_TEST(one_slab_is_registered_in_a_turn)
{
	struct buffer taken[8];

	for (unsigned int i = 0; i < 8; i++)
		ck_assert(buffers_take(&buffers, MIB, &taken[i]));
	for (unsigned int left = 4; left > 0; left--) {
		ck_assert_uint_eq(buffers.unregistered, left);
		ck_assert_uint_eq(places_taken(), 4 - left);
		buffers_register(&buffers);
	}
	for (unsigned int i = 0; i < 8; i++) {
		ck_assert(is_registered(&taken[i], MIB));
		buffers_give(&buffers, &taken[i]);
	}
	buffers_register(&buffers);
	ck_assert_uint_eq(places_taken(), 4);
}
END_TEST

START_TEST(longest_buffer_is_registered_as_far_as_it_was_used)
{
	struct buffer buffer;

	ck_assert(buffers_take(&buffers, 17 * MIB, &buffer));
	ck_assert_uint_eq(buffers.unregistered, 0);
	buffers_give(&buffers, &buffer);
	buffers_register(&buffers);
	ck_assert(buffers_take(&buffers, 20 * MIB, &buffer));
	ck_assert(is_registered(&buffer, 17 * MIB));
	ck_assert(!is_registered(&buffer, 17 * MIB + 1));
	/* Its place may be in operations under way. */
	buffers_give(&buffers, &buffer);
	ck_assert_uint_eq(buffers.unregistered, 1);
	ck_assert(buffers_take(&buffers, 18 * MIB, &buffer));
	buffers_register(&buffers);
	ck_assert_uint_eq(buffers.unregistered, 1);
	ck_assert(!is_registered(&buffer, 18 * MIB));
	buffers_give(&buffers, &buffer);
	buffers_register(&buffers);
	ck_assert_uint_eq(buffers.unregistered, 0);
	ck_assert(buffers_take(&buffers, 32 * MIB, &buffer));
	ck_assert(is_registered(&buffer, 20 * MIB));
	buffers_give(&buffers, &buffer);
}
END_TEST

/* A client that announced 32 MiB and vanished made the loop stand still for 100 milliseconds. */
START_TEST(longest_buffer_that_was_not_filled_is_not_registered)
{
	struct buffer buffer;

	ck_assert(buffers_take(&buffers, 32 * MIB, &buffer));
	buffers_not_filled(&buffer);
	buffers_give(&buffers, &buffer);
	ck_assert_uint_eq(buffers.unregistered, 0);
	ck_assert(buffers_take(&buffers, 20 * MIB, &buffer));
	buffers_give(&buffers, &buffer);
	ck_assert(buffers_take(&buffers, 32 * MIB, &buffer));
	buffers_not_filled(&buffer);
	buffers_give(&buffers, &buffer);
	buffers_register(&buffers);
	ck_assert(buffers_take(&buffers, 32 * MIB, &buffer));
	ck_assert(is_registered(&buffer, 20 * MIB));
	ck_assert(!is_registered(&buffer, 20 * MIB + 1));
	buffers_give(&buffers, &buffer);
}
END_TEST

START_TEST(memory_that_makes_room_gives_its_places_back)
{
	struct buffer first, second;

	ck_assert(buffers_take(&buffers, 4096, &first));
	ck_assert(buffers_take(&buffers, MIB, &second));
	buffers_register(&buffers);
	buffers_give(&buffers, &first);
	buffers_give(&buffers, &second);
	ck_assert_uint_eq(places_taken(), 1);
	ck_assert_uint_eq(buffers.unregistered, 1);
	ck_assert(buffers_take(&buffers, 32 * MIB, &first));
	ck_assert_uint_eq(places_taken(), 0);
	ck_assert_uint_eq(buffers.unregistered, 0);
	/* What is unmapped as soon as it is given back is not worth it. */
	ck_assert(buffers_take_first(&buffers, MIB, &second));
	ck_assert_ptr_null(second.registered);
	buffers_give(&buffers, &second);
	buffers_give(&buffers, &first);
}
END_TEST

/* On Linux 6.1 and 6.12, it stays at least until the requests in flight have ended: clients that
 * used up one size after another took any amount of memory beyond the limit while a disk hung. */
START_TEST(memory_that_the_kernel_still_holds_makes_no_room)
{
	struct completion completion = {.done = read_ended};
	struct buffer first, second;
	struct io_uring_sqe *sqe;
	int ends[2];

	ck_assert_int_eq(pipe(ends), 0);
	ck_assert(buffers_take(&buffers, MIB, &first));
	buffers_register(&buffers);
	sqe = ring_queue(&ring);
	io_uring_prep_read_fixed(sqe, ends[0], first.memory, 1, 0, first.registered->place);
	io_uring_sqe_set_data(sqe, &completion);
	ck_assert_int_eq(ring_submit(&ring), 0);
	buffers_give(&buffers, &first);
	for (unsigned int i = 0; i < 3; i++) {
		ck_assert(buffers_take(&buffers, 32 * MIB, &second));
		ck_assert_uint_eq(buffers.mapped, 32 * MIB);
		/* It is not kept, and so not registered. */
		ck_assert_ptr_null(second.registered);
		buffers_give(&buffers, &second);
		ck_assert_uint_eq(buffers.mapped, 0);
	}
	ck_assert_int_eq(write(ends[1], "x", 1), 1);
	while (ring.in_flight > 0)
		ck_assert_int_eq(ring_run(&ring, 1), 0);
	for (unsigned int i = 0; ring_held(&ring) > 0 && i < 500; i++)
		ck_assert_int_eq(ring_run_for(&ring, 10), 0);
	ck_assert(buffers_take(&buffers, 32 * MIB, &second));
	ck_assert_ptr_nonnull(second.registered);
	buffers_give(&buffers, &second);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

START_TEST(little_locked_memory_is_for_small_buffers)
{
	struct buffer small, large, longest;

	buffers.registers_large = false;
	ck_assert(buffers_take(&buffers, 32 * KIB, &small));
	ck_assert(buffers_take(&buffers, 64 * KIB, &large));
	ck_assert(buffers_take(&buffers, 4 * MIB, &longest));
	ck_assert_uint_eq(buffers.unregistered, 1);
	buffers_register(&buffers);
	ck_assert(is_registered(&small, 32 * KIB));
	buffers_give(&buffers, &longest);
	ck_assert_uint_eq(buffers.unregistered, 0);
	buffers_give(&buffers, &small);
	buffers_give(&buffers, &large);
}
END_TEST

START_TEST(buffers_work_if_the_ring_takes_no_more)
{
	struct buffer buffer;

	ring.memory_full = true;
	for (size_t length = 4096; length <= 32 * MIB; length *= 2) {
		ck_assert(buffers_take(&buffers, length, &buffer));
		buffers_register(&buffers);
		ck_assert(!is_registered(&buffer, 1));
		buffers_give(&buffers, &buffer);
	}
	ck_assert_uint_eq(places_taken(), 0);
}
END_TEST

START_TEST(memory_made_beforehand_is_registered_at_once)
{
	struct buffer buffer;

	ck_assert_int_eq(buffers_reserve(&buffers), 0);
	for (size_t length = 4096; length <= 32 * MIB; length *= 2) {
		ck_assert(buffers_take(&buffers, length, &buffer));
		ck_assert(is_registered(&buffer, length));
		buffers_give(&buffers, &buffer);
	}
	ck_assert_uint_eq(places_taken(), 1);
}
END_TEST

int
main(void)
{
	const char *shared = locked_memory_is_shared();
	const struct suite_row cases[] = {
		{.name = "registered buffers", .begin = begin_ring, .end = end_ring},
		{.test = slab_is_registered_in_the_next_turn, .reason = shared},
		{.test = one_slab_is_registered_in_a_turn, .reason = shared},
		{.test = longest_buffer_is_registered_as_far_as_it_was_used, .reason = shared},
		{.test = longest_buffer_that_was_not_filled_is_not_registered, .reason = shared},
		{.test = memory_that_makes_room_gives_its_places_back, .reason = shared},
		{.test = memory_that_the_kernel_still_holds_makes_no_room, .reason = shared},
		{.test = little_locked_memory_is_for_small_buffers, .reason = shared},
		{.test = buffers_work_if_the_ring_takes_no_more, .reason = shared},
		{.test = memory_made_beforehand_is_registered_at_once, .reason = shared},
		{0},
	};

	return suite_run("registered buffers", cases);
}
