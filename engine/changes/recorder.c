/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/recorder.h"

#include "engine/changes/checkpoints_state.h"
#include "engine/image/image.h"
#include "engine/io/image_state.h"
#include "engine/io/range.h"

#include "common/thread.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* Seconds between two witnesses, and two sweeps. Three of them are within WITNESS_TRUST. */
#define TICK 5

_Static_assert(3 * TICK <= WITNESS_TRUST,
	       "own changes after the last witness would not be trusted");

/* ---- marks */

/* The part of a change in the image. Ranges of other images of the same file may lie before it. */
static bool
part_of(const struct checkpoints *set, const struct range *range, uint64_t *start, uint64_t *end)
{
	if (range->end <= set->start)
		return false;
	*start = range->start > set->start ? range->start - set->start : 0;
	*end = range->end - set->start;
	return true;
}

void
checkpoint_set_stale(struct checkpoint *checkpoint, uint64_t first, uint64_t end)
{
	bool none = checkpoint->stale_first == checkpoint->stale_end;

	memset(checkpoint->stale + first, 1, (size_t)(end - first));
	if (none || first < checkpoint->stale_first)
		checkpoint->stale_first = first;
	if (none || end > checkpoint->stale_end)
		checkpoint->stale_end = end;
}

/* Marks a change as written, and the blocks of the record that lack it as stale. */
static void
mark_written(struct checkpoint *checkpoint, uint64_t start, uint64_t end)
{
	uint64_t granule = checkpoint->facts.granule;
	uint64_t first = start / granule, last = (end - 1) / granule;
	uint64_t granules = bitmap_granules(checkpoint->written);

	if (first >= granules)
		return;
	last = last < granules ? last : granules - 1;
	bitmap_mark(checkpoint->written, start, end);
	checkpoint_set_stale(checkpoint, first / RECORD_BLOCK_GRANULES,
			     last / RECORD_BLOCK_GRANULES + 1);
}

/* Marks the regions of a change as in use. Returns whether the record lacks one of them. */
static bool
use_regions(struct checkpoints *set, uint64_t start, uint64_t end)
{
	struct record_header *header = &set->record.header;
	uint64_t first = start / header->region, last = (end - 1) / header->region;
	bool lacks = false;

	/* The last one goes on to the end. */
	first = first < RECORD_REGIONS ? first : RECORD_REGIONS - 1;
	last = last < RECORD_REGIONS ? last : RECORD_REGIONS - 1;
	for (uint64_t region = first; region <= last; region++) {
		uint64_t bit = UINT64_C(1) << region % 64;

		set->touched[region / 64] |= bit;
		lacks |= !(header->regions[region / 64] & bit);
		header->regions[region / 64] |= bit;
	}
	return lacks;
}

static int
put_stale_blocks(struct checkpoints *set, struct checkpoint *checkpoint)
{
	uint64_t words[RECORD_BLOCK_WORDS];
	int r = 0;

	for (uint64_t n = checkpoint->stale_first; r == 0 && n < checkpoint->stale_end; n++) {
		if (!checkpoint->stale[n])
			continue;
		bitmap_read(checkpoint->written, n * RECORD_BLOCK_WORDS, RECORD_BLOCK_WORDS, words);
		r = record_put_block(&set->record, &checkpoint->entry, (uint32_t)n, words);
		checkpoint->stale[n] = 0;
	}
	checkpoint->stale_first = checkpoint->stale_end = 0;
	return r;
}

int
recorder_put_blocks(struct checkpoints *set)
{
	int r = 0;

	for (struct checkpoint *one = set->first; r == 0 && one; one = one->next)
		r = put_stale_blocks(set, one);
	return r;
}

/* ---- a batch of changes */

/* recording held. No checkpoint comes or goes, since the changes are in flight. */
static int
write_batch(struct checkpoints *set, const struct range *batch)
{
	bool lacks = atomic_load(&set->quiet);
	uint64_t start, end;
	int r;

	for (; batch; batch = batch->waiting) {
		if (!part_of(set, batch, &start, &end))
			continue;
		for (struct checkpoint *one = set->first; one; one = one->next)
			mark_written(one, start, end);
		lacks |= use_regions(set, start, end);
	}
	r = recorder_put_blocks(set);
	if (r == 0 && lacks)
		r = kept_put(set);
	if (r == 0)
		atomic_store(&set->quiet, false);
	return r;
}

static void
release(struct checkpoints *set, struct range *range)
{
	uint64_t start, end;

	if (part_of(set, range, &start, &end)) {
		for (struct checkpoint *one = set->first; one; one = one->next)
			bitmap_mark(one->bitmap, start, end);
	}
	observer_release(range);
}

static void
record_batch(struct checkpoints *set, struct range *batch)
{
	struct range *next;
	int r;

	pthread_mutex_lock(&set->recording);
	r = atomic_load(&set->kept) ? write_batch(set, batch) : 0;
	if (r < 0)
		kept_break(set, r);
	pthread_mutex_unlock(&set->recording);
	for (; batch; batch = next) {
		next = batch->waiting;
		release(set, batch);
	}
}

/* ---- every few seconds */

/* recording held. Makes all marks durable, so that regions without new ones need not be marked any
 * more. */
static int
sweep(struct checkpoints *set)
{
	struct record_header *header = &set->record.header;
	struct witness before = header->witness;
	bool quiet = true;
	int r;

	if (atomic_load(&set->quiet))
		return 0;
	/* The header that says so comes only after the marks are durable. */
	r = record_sync(&set->record);
	if (r < 0)
		return r;
	for (size_t i = 0; i < RECORD_REGIONS / 64; i++) {
		header->regions[i] &= set->touched[i];
		quiet = quiet && !header->regions[i];
	}
	memset(set->touched, 0, sizeof(set->touched));
	r = kept_put(set);
	if (r == 0 && quiet && witness_is_untouched(&before, &header->witness))
		atomic_store(&set->quiet, true);
	return r;
}

void
recorder_tick(struct checkpoints *set)
{
	int r;

	pthread_mutex_lock(&set->recording);
	if (atomic_load(&set->kept)) {
		r = sweep(set);
		if (r < 0)
			kept_break(set, r);
	} else {
		kept_retry(set);
	}
	pthread_mutex_unlock(&set->recording);
}

/* ---- the thread */

/* Waits for changes, until `next`. Returns them, or NULL; *stop: the thread is to end. */
static struct range *
await_batch(struct checkpoints *set, const struct timespec *next, bool *stop)
{
	struct range *batch;
	int r = 0;

	pthread_mutex_lock(&set->queueing);
	while (!set->queue && !set->stop && r == 0)
		r = pthread_cond_timedwait(&set->work, &set->queueing, next);
	batch = set->queue;
	set->queue = NULL;
	*stop = set->stop;
	pthread_mutex_unlock(&set->queueing);
	return batch;
}

static struct timespec
next_tick(void)
{
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	next.tv_sec += TICK;
	return next;
}

static bool
is_over(const struct timespec *time)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > time->tv_sec ||
	       (now.tv_sec == time->tv_sec && now.tv_nsec >= time->tv_nsec);
}

static void *
run(void *data)
{
	struct checkpoints *set = data;
	struct timespec next = next_tick();
	bool stop = false;

	while (!stop) {
		struct range *batch = await_batch(set, &next, &stop);

		thread_confine(THREAD_RECORDER);
		if (batch)
			record_batch(set, batch);
		if (is_over(&next)) {
			recorder_tick(set);
			next = next_tick();
		}
	}
	return NULL;
}

int
recorder_start(struct checkpoints *set)
{
	int r = set->running ? 0 : thread_start(&set->thread, run, set);

	set->running = r == 0;
	return r;
}

void
recorder_stop(struct checkpoints *set)
{
	if (!set->running)
		return;
	pthread_mutex_lock(&set->queueing);
	set->stop = true;
	pthread_cond_signal(&set->work);
	pthread_mutex_unlock(&set->queueing);
	pthread_join(set->thread, NULL);
	set->running = set->stop = false;
}

void
recorder_give(struct checkpoints *set, struct range *range)
{
	pthread_mutex_lock(&set->queueing);
	range->waiting = set->queue;
	if (!set->queue)
		pthread_cond_signal(&set->work);
	set->queue = range;
	pthread_mutex_unlock(&set->queueing);
}
