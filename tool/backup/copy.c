/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/copy.h"

#include "tool/backup/delta_format.h"
#include "tool/backup/file_end.h"
#include "tool/backup/interruption.h"
#include "tool/failure.h"

#include "common/container_of.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS        64   /* requests in flight */
#define BATCH_PIECES 2048 /* between two syncs of a target that can lose what was not synced */
#define REPEATS_MAX  10   /* of one batch */

struct slot {
	struct end_request request;
	struct copy *copy;
	struct part piece;
	unsigned char *data;  /* DELTA_DATA_MAX bytes, the most that a piece has */
	unsigned char *other; /* the target's, to compare; as many */
	bool busy;
};

struct copy {
	const struct copy_options *options;
	bool compare;
	struct plan_cursor cursor;
	unsigned int pieces_left; /* that may be begun */
	unsigned int busy;        /* slots */
	GError *error;            /* of the first request that has failed */
	struct slot slots[SLOTS];
};

static struct slot *
of_request(struct end_request *request)
{
	return container_of(request, struct slot, request);
}

/* Takes over the error; the first one counts. */
static void
copy_keep_error(struct copy *copy, GError *error)
{
	if (!copy->error)
		copy->error = error;
	else
		g_error_free(error);
}

/* Ends the piece in a slot; takes over the error. */
static void
slot_finish(struct slot *slot, GError *error)
{
	struct copy *copy = slot->copy;

	slot->busy = false;
	copy->busy--;
	if (error)
		copy_keep_error(copy, error);
	else if (!slot->piece.zero || copy->compare)
		progress_add(copy->options->progress, slot->piece.length);
}

static void
slot_ask(struct slot *slot, struct end *end, enum end_operation operation, unsigned char *data,
	 void (*done)(struct end_request *request, GError *error))
{
	slot->request.operation = operation;
	slot->request.piece = slot->piece;
	slot->request.data = data;
	slot->request.done = done;
	end->kind->start(end, &slot->request);
}

static void
slot_written(struct end_request *request, GError *error)
{
	slot_finish(of_request(request), error);
}

static void
have_data(struct end_request *request, GError *error)
{
	struct slot *slot = of_request(request);

	if (error)
		slot_finish(slot, error);
	else
		slot_ask(slot, slot->copy->options->target, END_WRITE, slot->data, slot_written);
}

/* ---- to compare */

static void
have_both(struct end_request *request, GError *error)
{
	struct slot *slot = of_request(request);
	const struct copy_options *options = slot->copy->options;

	if (!error && memcmp(slot->data, slot->other, slot->piece.length) != 0) {
		uint64_t i = 0;

		while (slot->data[i] == slot->other[i])
			i++;
		failure(&error, EIO,
			"%s differs from %s at byte %" G_GUINT64_FORMAT
			": unless clients write to the source, one of both returns wrong data",
			options->target->name, options->source->name, slot->piece.offset + i);
	}
	slot_finish(slot, error);
}

static void
have_one(struct end_request *request, GError *error)
{
	struct slot *slot = of_request(request);

	if (error)
		slot_finish(slot, error);
	else
		slot_ask(slot, slot->copy->options->target, END_READ, slot->other, have_both);
}

/* ---- pieces */

/* For direct I/O; of DELTA_DATA_MAX bytes.  Caller frees (free). */
static unsigned char *
new_buffer(void)
{
	unsigned char *buffer = aligned_alloc(FILE_END_ALIGNMENT, DELTA_DATA_MAX);

	if (!buffer)
		g_error("out of memory"); /* as g_malloc() does */
	return buffer;
}

static void
begin_piece(struct slot *slot)
{
	struct copy *copy = slot->copy;
	const struct copy_options *options = copy->options;

	if (!slot->data)
		slot->data = new_buffer();
	if (!slot->other && copy->compare)
		slot->other = new_buffer();
	slot->busy = true;
	copy->busy++;
	if (copy->compare)
		slot_ask(slot, options->source, END_READ, slot->data, have_one);
	else if (slot->piece.zero)
		slot_ask(slot, options->target, END_ZERO, NULL, slot_written);
	else
		slot_ask(slot, options->source, END_READ, slot->data, have_data);
}

/* Begins pieces while there are slots for them. */
static void
copy_fill(struct copy *copy)
{
	const uint64_t zero_max = copy->compare ? PLAN_DATA_MAX : copy->options->target->zero_max;

	for (int i = 0; i < SLOTS; i++) {
		struct slot *slot = &copy->slots[i];

		while (!slot->busy && !copy->error && !interruption_seen() &&
		       copy->pieces_left > 0 &&
		       plan_next(copy->options->plan, &copy->cursor, zero_max, &slot->piece)) {
			copy->pieces_left--;
			begin_piece(slot);
		}
	}
}

/* Waits for what the ends wait for, and carries on. */
static void
wait_for_ends(struct copy *copy)
{
	struct end *const ends[] = {copy->options->source, copy->options->target};
	struct pollfd polled[2 * END_POLLED_MAX];
	int counts[2], all = 0;

	for (int i = 0; i < 2; i++) {
		counts[i] =
			ends[i]->kind->prepare ? ends[i]->kind->prepare(ends[i], polled + all) : 0;
		all += counts[i];
	}
	poll(polled, (nfds_t)all, 250);
	all = 0;
	for (int i = 0; i < 2; i++) {
		GError *error = NULL;

		if (counts[i] && !ends[i]->kind->turn(ends[i], polled + all, counts[i], &error))
			copy_keep_error(copy, error);
		all += counts[i];
	}
	progress_show(copy->options->progress);
}

/* Some pieces, or all that are left; none is in flight when it returns true. */
static bool
run_pieces(struct copy *copy, unsigned int most)
{
	copy->pieces_left = most;
	do {
		copy_fill(copy);
		if (!copy->error)
			interruption_check(&copy->error);
		if (copy->busy && !copy->error)
			wait_for_ends(copy);
	} while (copy->busy && !copy->error);
	return !copy->error;
}

static unsigned int
end_losses(const struct end *end)
{
	return end->kind->losses ? end->kind->losses(end) : 0;
}

/* A batch, and what makes it durable.  If a connection to the target was lost meanwhile, its server
 * may have lost what it had acknowledged: then all of the batch is copied again. */
static bool
run_batch(struct copy *copy)
{
	struct end *target = copy->options->target;
	const struct plan_cursor begin = copy->cursor;
	unsigned int before;
	int repeats = 0;

	do {
		before = end_losses(target);
		copy->cursor = begin;
		if (!run_pieces(copy, target->kind->losses ? BATCH_PIECES : G_MAXUINT) ||
		    !target->kind->sync(target, &copy->error))
			return false;
	} while (end_losses(target) != before && ++repeats < REPEATS_MAX);
	return end_losses(target) == before ||
	       failure(&copy->error, EIO,
		       "%s: the connection was lost %d times, each time before what was written "
		       "had reached the disk",
		       target->name, REPEATS_MAX);
}

static void
end_stop(struct end *end)
{
	if (end->kind->stop)
		end->kind->stop(end);
}

static bool
copy_run_step(const char *step, const struct copy_options *options, bool compare, GError **error)
{
	struct copy *copy = g_new0(struct copy, 1);
	bool done;

	copy->options = options;
	copy->compare = compare;
	for (int i = 0; i < SLOTS; i++)
		copy->slots[i].copy = copy;
	progress_begin(options->progress, step,
		       plan_bytes(options->plan, false) +
			       (compare ? plan_bytes(options->plan, true) : 0));
	do
		done = compare ? run_pieces(copy, G_MAXUINT) : run_batch(copy);
	while (done && copy->cursor.index < options->plan->len);
	if (done) {
		progress_end(options->progress);
	} else {
		progress_fail(options->progress);
		end_stop(options->source);
		end_stop(options->target);
		failure_pass(error, &copy->error);
	}
	for (int i = 0; i < SLOTS; i++) {
		free(copy->slots[i].data);
		free(copy->slots[i].other);
	}
	g_free(copy);
	return done;
}

bool
copy_run(const char *step, const struct copy_options *options, GError **error)
{
	return copy_run_step(step, options, false, error);
}

bool
copy_compare(const struct copy_options *options, GError **error)
{
	return copy_run_step("verify", options, true, error);
}
