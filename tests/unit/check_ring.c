/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring: its registered files, places that are given out and come back; and operations for which
 * the kernel has no room.
 */
#include "engine/backend/ring.h"

#include "engine/backend/choice.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PAIRS (RING_FILES / 2)

static struct ring ring;
static const int fds[2] = {STDOUT_FILENO, STDERR_FILENO};

static unsigned int completed; /* so many, in their order */

static void
begin(void)
{
	completed = 0;
	ck_assert_int_eq(ring_init(&ring, 4, 4, 0, RING_FILES), 0);
	ck_assert_uint_eq(ring.file_limit, RING_FILES);
}

static void
end(void)
{
	ring_fini(&ring);
}

START_TEST(each_gets_places_of_its_own_until_there_are_none)
{
	bool taken[RING_FILES] = {false};

	for (unsigned int i = 0; i < PAIRS; i++) {
		int first = ring_add_files(&ring, fds, 2);

		ck_assert_int_ge(first, 0);
		ck_assert_int_le(first, RING_FILES - 2);
		ck_assert(!taken[first] && !taken[first + 1]);
		taken[first] = taken[first + 1] = true;
	}
	ck_assert_int_eq(ring_add_files(&ring, fds, 2), -1);
	ring_remove_files(&ring, -1, 2);
	ck_assert_int_eq(ring_add_files(&ring, fds, 2), -1);
}
END_TEST

/* Exports come and go, and the first that came isn't the last to go. */
START_TEST(places_are_given_out_again_whatever_order_they_come_back_in)
{
	int held = ring_add_files(&ring, fds, 2);

	for (unsigned int i = 0; i < 4 * PAIRS; i++) {
		int next = ring_add_files(&ring, fds, 2);

		ck_assert_int_ge(next, 0);
		ck_assert_int_ne(next, held);
		ring_remove_files(&ring, held, 2);
		held = next;
	}
}
END_TEST

/* ---- a kernel that takes nothing */

static int (*submit)(struct io_uring *uring);
static int (*submit_and_wait)(struct io_uring *uring, unsigned int wait);
static int (*submit_and_get_events)(struct io_uring *uring);
static bool busy;
static unsigned int refused;

static void
find_library(void)
{
	submit = (int (*)(struct io_uring *))dlsym(RTLD_NEXT, "io_uring_submit");
	submit_and_wait = (int (*)(struct io_uring *, unsigned int))dlsym(
		RTLD_NEXT, "io_uring_submit_and_wait");
	submit_and_get_events =
		(int (*)(struct io_uring *))dlsym(RTLD_NEXT, "io_uring_submit_and_get_events");
}

static int
refuse(void)
{
	/* Far more often than there are operations: somebody tries without end. */
	ck_assert_uint_lt(++refused, 10000);
	return -EBUSY;
}

/* These stand in for the library's. */
int
io_uring_submit(struct io_uring *uring)
{
	return busy ? refuse() : submit(uring);
}

int
io_uring_submit_and_wait(struct io_uring *uring, unsigned int wait)
{
	return busy ? refuse() : submit_and_wait(uring, wait);
}

#ifdef io_uring_submit_and_get_events
#error "the library's function is a macro"
#endif
int
io_uring_submit_and_get_events(struct io_uring *uring)
{
	return busy ? refuse() : submit_and_get_events(uring);
}

struct noted {
	struct completion completion;
	unsigned int number;
};

static void
note(struct completion *completion, int result)
{
	ck_assert_int_eq(result, 0);
	ck_assert_uint_eq(((struct noted *)completion)->number, completed);
	completed++;
}

static void
queue_nop(struct noted *noted, unsigned int number)
{
	struct io_uring_sqe *sqe = ring_queue(&ring);

	*noted = (struct noted){{note}, number};
	io_uring_prep_nop(sqe);
	io_uring_sqe_set_data(sqe, &noted->completion);
}

START_TEST(operations_wait_in_their_order_while_the_kernel_is_busy)
{
	enum {
		FEW = 3,
		MANY = 50
	};
	struct noted noted[FEW + MANY];

	/* Completions that nobody has taken yet. */
	for (unsigned int i = 0; i < FEW; i++)
		queue_nop(&noted[i], i);
	ck_assert_int_eq(ring_submit(&ring), 0);
	busy = true;
	for (unsigned int i = FEW; i < FEW + MANY; i++)
		queue_nop(&noted[i], i);
	ck_assert_uint_eq(ring.in_flight, FEW + MANY);
	/* They are taken though the kernel takes nothing: it waits for that. */
	ck_assert_int_eq(ring_run_for(&ring, _i == 0 ? -1 : 0), 0);
	ck_assert_uint_eq(completed, FEW);
	ck_assert_int_eq(ring_submit(&ring), 0);
	busy = false;
	for (unsigned int i = 0; ring.in_flight > 0 && i < MANY; i++)
		ck_assert_int_eq(ring_run_for(&ring, _i == 0 ? -1 : 0), 0);
	ck_assert_uint_eq(completed, FEW + MANY);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "files", .begin = begin, .end = end},
		{.test = each_gets_places_of_its_own_until_there_are_none},
		{.test = places_are_given_out_again_whatever_order_they_come_back_in},
		{.name = "waiting", .begin = begin, .end = end},
		{.test = operations_wait_in_their_order_while_the_kernel_is_busy, .last = 2},
		{0},
	};
	char reason[REASON_MAX];

	find_library();
	if (backend_works(ENGINE_IO_URING, reason) < 0) {
		printf("SKIP: %s\n", reason);
		return 77;
	}
	return suite_run("ring", cases);
}
