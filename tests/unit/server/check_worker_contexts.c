/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of a worker's busy contexts: a context is in it while it has ios under way, and no turn
 * looks at the others.
 */
#include "server/connection/offer.h"
#include "server/connection/worker_contexts.h"

#include "engine/context/ioctx.h"

#include "tests/lib/suite.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define CONTEXTS 3
#define DEPTH    2
#define IOS      64
#define BLOCK    ((size_t)4096)

static const bool ways[] = {false, true}; /* whether the loop has a ring */

static struct worker_config config;
static struct worker worker;
static struct export open_exports[CONTEXTS];
static struct offer offers[CONTEXTS];
static struct worker_context *contexts[CONTEXTS];
static int files[CONTEXTS];
static struct io ios[IOS];
static char bytes[IOS * BLOCK];
static unsigned int done_count, forgotten_count;

static void
note_forgotten(struct exports *exports, struct offer *one)
{
	ck_assert_ptr_null(exports);
	ck_assert_ptr_eq(one, &offers[0]);
	forgotten_count++;
}

static void
open_offer(unsigned int n)
{
	const struct image_config image_config = {
		.direct_io = TRISTATE_OFF,
		.engine = worker.config->use_ring ? ENGINE_IO_URING : ENGINE_THREADS,
		.depth = DEPTH,
		.discard = TRISTATE_ON,
	};
	char path[SCRATCH_PATH];
	char *error;

	files[n] = scratch_file(IOS * BLOCK);
	ck_assert_int_eq(image_open(AT_FDCWD, scratch_path(files[n], path), 0, &image_config,
				    &open_exports[n].image, &error),
			 0);
	open_exports[n].traffic = traffic_new(1);
	ck_assert_ptr_nonnull(open_exports[n].traffic);
	offers[n].export = &open_exports[n];
	contexts[n] = worker_context(&worker, &offers[n]);
	ck_assert_ptr_nonnull(contexts[n]);
}

/* False: there is no io_uring here. */
static bool
open_worker(bool use_ring)
{
	config = (struct worker_config){.use_ring = use_ring, .forgotten = note_forgotten};
	worker = (struct worker){.config = &config};
	done_count = forgotten_count = 0;
	if (loop_new(&worker.loop, use_ring, false) < 0) {
		ck_assert(use_ring);
		return false;
	}
	for (unsigned int n = 0; n < CONTEXTS; n++)
		open_offer(n);
	return true;
}

static void
close_worker(void)
{
	worker.over = true;
	worker_contexts_free(&worker);
	loop_free(worker.loop);
	for (unsigned int n = 0; n < CONTEXTS; n++) {
		image_close(open_exports[n].image);
		free(open_exports[n].traffic);
		close(files[n]);
	}
}

static void
count_done(struct io *io)
{
	ck_assert_int_eq(io->result, 0);
	done_count++;
}

static void
submit(struct worker_context *context, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		ios[i] = (struct io){.op = IO_READ,
				     .offset = i * BLOCK,
				     .length = BLOCK,
				     .buffer = bytes + i * BLOCK,
				     .done = count_done};
		worker_context_mark(context);
		io_submit(context->ctx, &ios[i]);
	}
}

/* The end of a worker's turn, and the beginning of the next one. */
static void
turn(void)
{
	bool wanting;

	worker_contexts_mark_wanting(&worker);
	while (worker_contexts_run(&worker))
		;
	wanting = worker_contexts_rest(&worker);
	if (worker.busy)
		ck_assert_int_eq(loop_turn(worker.loop, wanting ? 0 : 10000), 0);
}

START_TEST(only_a_context_with_ios_under_way_is_busy)
{
	if (!open_worker(ways[_i]))
		return;
	ck_assert_ptr_null(worker.busy);
	submit(contexts[1], 1);
	ck_assert_ptr_eq(worker.busy, contexts[1]);
	ck_assert_ptr_null(contexts[1]->next_busy);
	while (worker.busy) {
		turn();
		ck_assert(!contexts[0]->busy && !contexts[2]->busy);
	}
	ck_assert_uint_eq(done_count, 1);
	ck_assert(!contexts[1]->busy);
	close_worker();
}
END_TEST

START_TEST(context_is_busy_once_however_much_it_gets)
{
	if (!open_worker(ways[_i]))
		return;
	submit(contexts[0], 2);
	worker_context_mark(contexts[2]);
	worker_context_mark(contexts[0]);
	ck_assert_ptr_eq(worker.busy, contexts[2]);
	ck_assert_ptr_eq(contexts[2]->next_busy, contexts[0]);
	ck_assert_ptr_null(contexts[0]->next_busy);
	while (worker.busy)
		turn();
	ck_assert_uint_eq(done_count, 2);
	close_worker();
}
END_TEST

/* They must use chunks that have become idle, without another submission. */
START_TEST(context_stays_busy_until_ios_beyond_its_depth_are_done)
{
	if (!open_worker(ways[_i]))
		return;
	submit(contexts[0], IOS);
	while (done_count < IOS) {
		ck_assert_ptr_eq(worker.busy, contexts[0]);
		turn();
	}
	turn();
	ck_assert_ptr_null(worker.busy);
	close_worker();
}
END_TEST

START_TEST(forgotten_context_is_busy_no_longer)
{
	if (!open_worker(ways[_i]))
		return;
	worker_context_mark(contexts[0]);
	worker_context_mark(contexts[1]);
	worker_forget(&worker, &offers[0]);
	while (worker.leaving) {
		ck_assert_int_eq(loop_turn(worker.loop, 10000), 0);
		worker_contexts_free_leaving(&worker);
	}
	ck_assert_uint_eq(forgotten_count, 1);
	ck_assert_ptr_eq(worker.busy, contexts[1]);
	ck_assert_ptr_null(contexts[1]->next_busy);
	turn();
	close_worker();
}
END_TEST

int
main(void)
{
	const int count = sizeof(ways) / sizeof(ways[0]);
	const struct suite_row cases[] = {
		{.name = "worker_contexts"},
		{.test = only_a_context_with_ios_under_way_is_busy, .last = count},
		{.test = context_is_busy_once_however_much_it_gets, .last = count},
		{.test = context_stays_busy_until_ios_beyond_its_depth_are_done, .last = count},
		{.test = forgotten_context_is_busy_no_longer, .last = count},
		{0},
	};

	return suite_run("worker_contexts", cases);
}
