/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring: its tables of registered files and memory, and operations for which the kernel has no
 * room.
 */
#include "engine/backend/ring.h"

#include "engine/backend/choice.h"

#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES 64
#define PAIRS (FILES / 2)

static struct ring ring;
static const int fds[2] = {STDOUT_FILENO, STDERR_FILENO};

static unsigned int completed; /* number of completions, which come in order */

static void
begin(void)
{
	completed = 0;
	ck_assert_int_eq(ring_init(&ring, 4, 4, 0, FILES), 0);
	ck_assert_uint_eq(ring.files.count, FILES);
}

static void
end(void)
{
	ring_fini(&ring);
}

START_TEST(each_gets_places_of_its_own_until_there_are_none)
{
	bool taken[FILES] = {false};

	for (unsigned int i = 0; i < PAIRS; i++) {
		int first = ring_add_files(&ring, fds, 2);

		ck_assert_int_ge(first, 0);
		ck_assert_int_le(first, FILES - 2);
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

/* ---- registered memory */

#define PIECE ((size_t)64 << 10)

static int (*update)(struct io_uring *uring, unsigned int off, const struct iovec *iovecs,
		     const __u64 *tags, unsigned int nr);
static int update_error; /* 0: the kernel's own result */
static unsigned int updates;
static char *pieces;

/* Stands in for the library's. */
int
io_uring_register_buffers_update_tag(struct io_uring *uring, unsigned int off,
				     const struct iovec *iovecs, const __u64 *tags, unsigned int nr)
{
	updates++;
	return update_error ? update_error : update(uring, off, iovecs, tags, nr);
}

static void
begin_memory(void)
{
	log_capture_begin();
	begin();
	update_error = 0;
	updates = 0;
	pieces = aligned_alloc(4096, 4 * PIECE);
	memset(pieces, 0, 4 * PIECE);
	ring_offer_memory(&ring);
	if (!ring.memory.count) {
		printf("SKIP: memory: %s\n", atomic_load(&ring.unregistered));
		exit(77);
	}
}

static void
end_memory(void)
{
	end();
	free(pieces);
	log_capture_end();
}

static int result_of_read;

static void
keep_result(struct completion *completion, int result)
{
	(void)completion;
	result_of_read = result;
}

/* Reads the first bytes of this program into registered memory. Returns the kernel's result. */
static int
read_into(char *memory, int place)
{
	struct completion completion = {keep_result};
	struct io_uring_sqe *sqe = ring_queue(&ring);
	int fd = open("/proc/self/exe", O_RDONLY);

	io_uring_prep_read_fixed(sqe, fd, memory, 4, 0, place);
	io_uring_sqe_set_data(sqe, &completion);
	ck_assert_int_eq(ring_run(&ring, 1), 0);
	close(fd);
	return result_of_read;
}

START_TEST(registered_memory_is_read_into_until_it_is_given_back)
{
	int first = ring_add_memory(&ring, pieces, PIECE);
	int second = ring_add_memory(&ring, pieces + PIECE, PIECE);

	ck_assert_int_ge(first, 0);
	ck_assert_int_ge(second, 0);
	ck_assert_int_ne(first, second);
	ck_assert_int_eq(read_into(pieces + 100, first), 4);
	ck_assert_mem_eq(pieces + 100, "\177ELF", 4);
	ck_assert_int_eq(read_into(pieces + 2 * PIECE - 4, second), 4);
	ck_assert_int_eq(read_into(pieces + PIECE, first), -EFAULT);
	ring_remove_memory(&ring, first, PIECE);
	ck_assert_int_eq(read_into(pieces + 100, first), -EFAULT);
	ck_assert_int_eq(read_into(pieces + PIECE, second), 4);
	/* Its place is free again. */
	ck_assert_int_eq(ring_add_memory(&ring, pieces + 2 * PIECE, PIECE), first);
	ck_assert_int_eq(read_into(pieces + 2 * PIECE, first), 4);
	ring_remove_memory(&ring, first, PIECE);
	ring_remove_memory(&ring, second, PIECE);
	ring_remove_memory(&ring, REGISTERED_NOWHERE, PIECE);
	ck_assert_ptr_null(atomic_load(&ring.unregistered));
}
END_TEST

START_TEST(full_table_takes_memory_again_when_some_was_given_back)
{
	static int places[RING_MEMORY];

	for (unsigned int i = 0; i < RING_MEMORY; i++) {
		places[i] = ring_add_memory(&ring, pieces, 4096);
		ck_assert_int_ge(places[i], 0);
	}
	ck_assert_int_eq(ring_add_memory(&ring, pieces, 4096), REGISTERED_NOWHERE);
	ck_assert_str_eq(atomic_load(&ring.unregistered), "the ring's table is full");
	ring_remove_memory(&ring, places[77], 4096);
	ck_assert_int_eq(ring_add_memory(&ring, pieces, 4096), places[77]);
	ck_assert_int_eq(ring_add_memory(&ring, pieces, 4096), REGISTERED_NOWHERE);
}
END_TEST

/* On Linux 6.1 and 6.12, memory that was unregistered and unmapped could stay for ever. */
START_TEST(memory_is_held_until_the_kernel_tells_its_release)
{
	int place = ring_add_memory(&ring, pieces, PIECE - 100);
	struct completion completion = {keep_result};
	struct io_uring_sqe *sqe = ring_queue(&ring);
	int ends[2];

	ck_assert_int_eq(pipe(ends), 0);
	io_uring_prep_read_fixed(sqe, ends[0], pieces, 1, 0, place);
	io_uring_sqe_set_data(sqe, &completion);
	ck_assert_int_eq(ring_submit(&ring), 0);
	ck_assert_uint_eq(ring_held(&ring), 0);
	ring_remove_memory(&ring, place, PIECE - 100);
	ck_assert_int_eq(ring_run_for(&ring, 0), 0);
	ck_assert_uint_eq(ring_held(&ring), PIECE);
	ck_assert_uint_eq(ring.in_flight, 1);
	ck_assert_int_eq(write(ends[1], "x", 1), 1);
	while (ring.in_flight > 0)
		ck_assert_int_eq(ring_run(&ring, 1), 0);
	for (unsigned int i = 0; ring_held(&ring) > 0 && i < 500; i++)
		ck_assert_int_eq(ring_run_for(&ring, 10), 0);
	ck_assert_uint_eq(ring_held(&ring), 0);
	ck_assert_int_eq(ring_run_for(&ring, 0), 0);
	ck_assert_uint_eq(ring.held, 0);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

/* Each refusal costs the kernel as much as a success. */
START_TEST(memory_that_may_not_be_locked_is_refused_once_and_in_one_line)
{
	int first = ring_add_memory(&ring, pieces, PIECE);

	update_error = -ENOMEM;
	updates = 0;
	for (unsigned int i = 0; i < 10; i++)
		ck_assert_int_eq(ring_add_memory(&ring, pieces + PIECE, PIECE), REGISTERED_NOWHERE);
	ck_assert_uint_eq(updates, 1);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 1);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING,
				  "buffers are not registered with io_uring: no more memory may be "
				  "locked (see ulimit -l)"));
	ck_assert_int_eq(read_into(pieces, first), 4);
	update_error = 0;
	ring_remove_memory(&ring, first, PIECE);
	ck_assert_int_ge(ring_add_memory(&ring, pieces + PIECE, PIECE), 0);
}
END_TEST

START_TEST(ring_without_a_table_registers_no_memory)
{
	updates = 0;
	ck_assert_int_eq(ring_add_memory(&ring, pieces, PIECE), REGISTERED_NOWHERE);
	ring_remove_memory(&ring, REGISTERED_NOWHERE, PIECE);
	ck_assert_uint_eq(updates, 0);
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
	update = (int (*)(struct io_uring *, unsigned int, const struct iovec *, const __u64 *,
			  unsigned int))dlsym(RTLD_NEXT, "io_uring_register_buffers_update_tag");
	submit = (int (*)(struct io_uring *))dlsym(RTLD_NEXT, "io_uring_submit");
	submit_and_wait = (int (*)(struct io_uring *, unsigned int))dlsym(
		RTLD_NEXT, "io_uring_submit_and_wait");
	submit_and_get_events =
		(int (*)(struct io_uring *))dlsym(RTLD_NEXT, "io_uring_submit_and_get_events");
}

static int
refuse(void)
{
	/* Far more calls than operations: an endless loop. */
	ck_assert_uint_lt(++refused, 10000);
	return -EBUSY;
}

/* These replace liburing's functions. */
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

	/* Completions that were not taken yet. */
	for (unsigned int i = 0; i < FEW; i++)
		queue_nop(&noted[i], i);
	ck_assert_int_eq(ring_submit(&ring), 0);
	busy = true;
	for (unsigned int i = FEW; i < FEW + MANY; i++)
		queue_nop(&noted[i], i);
	ck_assert_uint_eq(ring.in_flight, FEW + MANY);
	/* The kernel takes no more until completions are taken from it. */
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
	const char *shared = locked_memory_is_shared();
	const struct suite_row cases[] = {
		{.name = "files", .begin = begin, .end = end},
		{.test = each_gets_places_of_its_own_until_there_are_none},
		{.test = places_are_given_out_again_whatever_order_they_come_back_in},
		{.name = "memory", .begin = begin_memory, .end = end_memory},
		{.test = registered_memory_is_read_into_until_it_is_given_back, .reason = shared},
		{.test = full_table_takes_memory_again_when_some_was_given_back, .reason = shared},
		{.test = memory_is_held_until_the_kernel_tells_its_release, .reason = shared},
		{.test = memory_that_may_not_be_locked_is_refused_once_and_in_one_line,
		 .reason = shared},
		{.name = "no table", .begin = begin, .end = end},
		{.test = ring_without_a_table_registers_no_memory},
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
