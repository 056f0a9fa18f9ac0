/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/recorder.h"

#include "engine/changes/record_keeper.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/thread.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* Milliseconds between two witnesses, and two sweeps. Three of them are within WITNESS_TRUST. */
#define TICK_MS 5000

_Static_assert(3 * TICK_MS <= WITNESS_TRUST * 1000,
	       "own changes after the last witness would not be trusted");

/* ---- marks */

/* Marks a change as written, and the blocks of the record that lack it as stale. */
static void
recorder_mark(struct checkpoint *checkpoint, uint64_t start, uint64_t end)
{
	uint64_t granule = checkpoint->facts.granule;
	uint64_t first = start / granule, last = (end - 1) / granule;
	uint64_t granules = bitmap_granules(checkpoint->written);

	if (first >= granules)
		return;
	last = last < granules ? last : granules - 1;
	bitmap_mark(checkpoint->written, start, end);
	keeper_set_stale(checkpoint, first / RECORD_BLOCK_GRANULES,
			 last / RECORD_BLOCK_GRANULES + 1);
}

/* Marks the regions of a change as in use. Returns whether the record lacks one of them. */
static bool
recorder_use_regions(struct checkpoints *set, uint64_t start, uint64_t end)
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

/* ---- a batch of changes */

/* recording held. No checkpoint comes or goes, since the changes are in flight. */
static int
recorder_put(struct checkpoints *set, const struct range *batch)
{
	bool lacks = atomic_load(&set->quiet);
	uint64_t start, end;
	int r;

	for (; batch; batch = batch->waiting) {
		if (!checkpoint_list_part(set, batch, &start, &end))
			continue;
		for (struct checkpoint *one = set->first; one; one = one->next)
			recorder_mark(one, start, end);
		lacks |= recorder_use_regions(set, start, end);
	}
	r = keeper_put_blocks(set);
	if (r == 0 && lacks)
		r = keeper_put_header(set);
	if (r == 0)
		atomic_store(&set->quiet, false);
	return r;
}

static void
recorder_write(struct checkpoints *set, struct range *batch)
{
	uint64_t start, end;
	int r;

	pthread_mutex_lock(&set->recording);
	r = atomic_load(&set->kept) ? recorder_put(set, batch) : 0;
	if (r < 0)
		keeper_break(set, r);
	pthread_mutex_unlock(&set->recording);
	while (batch) {
		struct range *range = batch;

		batch = range->waiting;
		if (checkpoint_list_part(set, range, &start, &end))
			for (struct checkpoint *one = set->first; one; one = one->next)
				bitmap_mark(one->bitmap, start, end);
		observer_release(range);
	}
}

/* ---- every few seconds */

/* recording held. Makes all marks durable, so that regions without new ones need not be marked any
 * more. */
static int
recorder_sweep(struct checkpoints *set)
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
	r = keeper_put_header(set);
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
		r = recorder_sweep(set);
		if (r < 0)
			keeper_break(set, r);
	} else {
		keeper_retry(set);
	}
	pthread_mutex_unlock(&set->recording);
}

/* ---- the thread */

/* Waits for changes, until `next`. Returns them, or NULL; *stop: the thread is to end. */
static struct range *
recorder_await(struct checkpoints *set, int64_t next, bool *stop)
{
	const struct timespec time = {.tv_sec = (time_t)(next / 1000),
				      .tv_nsec = (long)(next % 1000) * 1000000};
	struct range *batch;
	int r = 0;

	pthread_mutex_lock(&set->queueing);
	while (!set->queue && !set->stop && r == 0)
		r = pthread_cond_timedwait(&set->work, &set->queueing, &time);
	batch = steal_pointer(&set->queue);
	*stop = set->stop;
	pthread_mutex_unlock(&set->queueing);
	return batch;
}

static void *
recorder_run(void *data)
{
	struct checkpoints *set = data;
	int64_t next = clock_ms(CLOCK_MONOTONIC) + TICK_MS;
	bool stop = false;

	while (!stop) {
		struct range *batch = recorder_await(set, next, &stop);

		thread_confine(THREAD_RECORDER);
		if (batch)
			recorder_write(set, batch);
		if (clock_ms(CLOCK_MONOTONIC) >= next) {
			recorder_tick(set);
			next = clock_ms(CLOCK_MONOTONIC) + TICK_MS;
		}
	}
	return NULL;
}

int
recorder_start(struct checkpoints *set)
{
	int r = set->running ? 0 : thread_start(&set->thread, recorder_run, set);

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
