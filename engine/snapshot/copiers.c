/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/snapshot/copiers.h"

#include "engine/context/ioctx.h"
#include "engine/image/image.h"
#include "engine/io/image_state.h"
#include "engine/io/io.h"
#include "engine/io/observer.h"
#include "engine/snapshot/copy.h"

#include "common/container_of.h"

#include <stdlib.h>

/* Changes that are copied together. */
struct batch {
	struct helper_job job;
	struct copier *copier;
	struct range *ranges[AHEAD_CHANGES];
	unsigned int count;
	struct part_reads reads;
	struct batch *next; /* in .free */
};

/* That of one context: only its thread touches it, and a batch's helper the batch. */
struct copier {
	struct copy *copy;
	const struct ioctx *ctx;
	/* Gathers changes while others are under way; NULL: none. */
	struct batch *gathering;
	unsigned int under_way; /* batches that were gathered, with helpers */
	bool alone;             /* Linux AIO is impossible: each change has a helper of its own */
	struct batch *free;     /* kept for the next changes */
	struct copier *next;
};

/* ---- on a helper's thread */

static void
batch_work(struct helper_job *job)
{
	struct batch *batch = container_of(job, struct batch, job);
	struct copy *copy = batch->copier->copy;
	const bool direct = image_direct(io_of_range(batch->ranges[0])->ctx->image);
	struct copy_range ranges[AHEAD_CHANGES];

	for (unsigned int i = 0; i < batch->count; i++)
		ranges[i] = (struct copy_range){batch->ranges[i]->start, batch->ranges[i]->end};
	if (batch->count > 1 && direct)
		copy_ahead(copy, &batch->reads, ranges, batch->count);
	for (unsigned int i = 0; i < batch->count; i++) {
		copy_keep(copy, direct, ranges[i].start, ranges[i].end);
		/* The last one holds the copiers, and the batch, until batch_done(). */
		if (i + 1 < batch->count)
			observer_release(batch->ranges[i]);
	}
}

/* ---- on the context's thread */

/* Gives the gathered changes, if there are any, to a helper. */
static void
copier_give(struct copier *copier, struct ioctx *ctx)
{
	struct batch *batch = copier->gathering;

	if (!batch)
		return;
	copier->gathering = NULL;
	copier->under_way++;
	ioctx_help(ctx, &batch->job);
}

static void
batch_release_last(struct batch *batch)
{
	struct copier *copier = batch->copier;
	struct range *last = batch->ranges[batch->count - 1];

	batch->count = 0;
	batch->next = copier->free;
	copier->free = batch;
	observer_release(last);
}

static void
batch_done(struct helper_job *job)
{
	struct batch *batch = container_of(job, struct batch, job);

	batch->copier->under_way--;
	batch->copier->alone |= batch->reads.impossible;
	copier_give(batch->copier, io_of_range(batch->ranges[batch->count - 1])->ctx);
	batch_release_last(batch);
}

static void
batch_done_alone(struct helper_job *job)
{
	batch_release_last(container_of(job, struct batch, job));
}

/* Returns an empty batch, or NULL without memory. */
static struct batch *
batch_new(struct copier *copier)
{
	struct batch *batch = copier->free;

	if (batch)
		copier->free = batch->next;
	else
		batch = calloc(1, sizeof(*batch));
	if (batch) {
		batch->copier = copier;
		batch->job = (struct helper_job){.work = batch_work, .done = batch_done};
	}
	return batch;
}

/* A long copy must not hold others up; nor any, where one thread would make them one by one. */
static bool
copier_gathers(const struct copier *copier, const struct range *range, const struct ioctx *ctx)
{
	const uint64_t granule = copier->copy->granule;

	return !copier->alone && image_direct(ctx->image) &&
	       (range->end + granule - 1) / granule - range->start / granule <=
		       AHEAD_BYTES / granule;
}

/* Returns false without memory. */
static bool
copier_await(struct copier *copier, struct range *range, struct ioctx *ctx)
{
	const bool gather = copier_gathers(copier, range, ctx);
	struct batch *batch = gather && copier->gathering ? copier->gathering : batch_new(copier);

	if (!batch)
		return false;
	batch->ranges[batch->count++] = range;
	if (!gather) {
		batch->job.done = batch_done_alone;
		ioctx_help(ctx, &batch->job);
		return true;
	}
	copier->gathering = batch;
	if (copier->under_way == 0 || batch->count == AHEAD_CHANGES)
		copier_give(copier, ctx);
	return true;
}

static struct copier *
copiers_find(struct copiers *copiers, const struct ioctx *ctx)
{
	struct copier *copier;

	pthread_mutex_lock(&copiers->mutex);
	for (copier = copiers->copiers; copier && copier->ctx != ctx; copier = copier->next)
		;
	if (!copier)
		copier = calloc(1, sizeof(*copier));
	if (copier && !copier->copy) {
		*copier = (struct copier){
			.copy = copiers->copy, .ctx = ctx, .next = copiers->copiers};
		copiers->copiers = copier;
	}
	pthread_mutex_unlock(&copiers->mutex);
	return copier;
}

bool
copiers_keep(struct copiers *copiers, struct range *range)
{
	struct ioctx *ctx = io_of_range(range)->ctx;
	struct copier *copier;

	if (copy_has(copiers->copy, range->start, range->end))
		return true;
	if (!ctx->hosted) {
		copy_keep(copiers->copy, image_direct(ctx->image), range->start, range->end);
		return true;
	}
	copier = copiers_find(copiers, ctx);
	if (copier && copier_await(copier, range, ctx))
		return false;
	copy_break_at_once(copiers->copy, "out of memory");
	return true;
}

/* ---- beginning and end */

void
copiers_init(struct copiers *copiers, struct copy *copy)
{
	copiers->copy = copy;
	pthread_mutex_init(&copiers->mutex, NULL);
	copiers->copiers = NULL;
}

void
copiers_fini(struct copiers *copiers)
{
	while (copiers->copiers) {
		struct copier *copier = copiers->copiers;

		copiers->copiers = copier->next;
		while (copier->free) {
			struct batch *batch = copier->free;

			copier->free = batch->next;
			part_reads_fini(&batch->reads);
			free(batch);
		}
		free(copier);
	}
	pthread_mutex_destroy(&copiers->mutex);
}
