/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The set of an image's checkpoints, from its making to its end, and what changes do to it.
 */
#include "engine/changes/checkpoint.h"
#include "engine/changes/checkpoints_state.h"
#include "engine/changes/recorder.h"
#include "engine/image/freeze.h"
#include "engine/image/image.h"
#include "engine/io/image_state.h"
#include "engine/io/range.h"

#include "common/container_of.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Atomic uint32_t last_id = 1;

/* Marks a change, or has it recorded first if it is new to some checkpoint. The ranges of other
 * images of the same file may lie before this image, or after it. */
static bool
note_change(struct observer *observer, struct range *range)
{
	struct checkpoints *set = container_of(observer, struct checkpoints, observer);
	bool kept = atomic_load_explicit(&set->kept, memory_order_relaxed);
	uint64_t start, end;

	/* Also a change before the image: it changes the times of the file. */
	if (kept && atomic_load_explicit(&set->quiet, memory_order_relaxed)) {
		recorder_give(set, range);
		return false;
	}
	if (range->end <= set->start)
		return true;
	start = range->start > set->start ? range->start - set->start : 0;
	end = range->end - set->start;
	for (struct checkpoint *one = set->first; one; one = one->next) {
		if (!kept) {
			bitmap_mark(one->bitmap, start, end);
		} else if (!bitmap_has(one->bitmap, start, end)) {
			recorder_give(set, range);
			return false;
		}
	}
	return true;
}

/* Another image of the file was made smaller: what this one has beyond the end has changed, also if
 * the file has grown again when somebody looks. */
static void
note_end(struct observer *observer, uint64_t end)
{
	struct checkpoints *set = container_of(observer, struct checkpoints, observer);

	for (struct checkpoint *one = set->first; one; one = one->next)
		bitmap_limit(one->bitmap, end > set->start ? end - set->start : 0);
}

struct checkpoints *
checkpoints_new(struct image *image)
{
	struct checkpoints *set = calloc(1, sizeof(*set));
	pthread_condattr_t monotonic;

	if (!set)
		return NULL;
	set->image = image;
	set->start = image ? image_start(image) : 0;
	set->kind = image ? image->backing.kind->checkpoints : NULL;
	set->observer.change = note_change;
	set->observer.truncated = note_end;
	set->record.fd = -1;
	pthread_mutex_init(&set->mutex, NULL);
	pthread_mutex_init(&set->recording, NULL);
	pthread_mutex_init(&set->queueing, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&set->work, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return set;
}

void
checkpoints_set_problem(struct checkpoints *set, const char *reason)
{
	pthread_mutex_lock(&set->mutex);
	if (!set->problem[0])
		snprintf(set->problem, sizeof(set->problem), "%s", reason);
	pthread_mutex_unlock(&set->mutex);
	atomic_store(&set->unknown, true);
}

void
checkpoint_free(struct checkpoint *checkpoint)
{
	if (checkpoint->making)
		checkpoint->set->image->backing.kind->snapshots->free(checkpoint->making);
	free(checkpoint->bitmap);
	free(checkpoint->written);
	free(checkpoint->stale);
	free(checkpoint);
}

static struct bitmap *
bitmap_of(const struct record_entry *entry)
{
	struct bitmap *bitmap = bitmap_new(entry->granules * entry->granule, entry->granule);

	if (bitmap)
		bitmap_limit(bitmap, entry->covered);
	return bitmap;
}

struct checkpoint *
checkpoint_new(struct checkpoints *set, const struct record_entry *entry, bool kept)
{
	struct checkpoint *checkpoint = calloc(1, sizeof(*checkpoint));

	if (!checkpoint)
		return NULL;
	checkpoint->set = set;
	checkpoint->users = 1;
	checkpoint->entry = *entry;
	checkpoint->facts.granule = entry->granule;
	checkpoint->facts.begun = entry->begun;
	checkpoint->facts.id = atomic_fetch_add(&last_id, 1) + 1;
	memcpy(checkpoint->facts.name, entry->name, strlen(entry->name) + 1);
	if (set->kind)
		return checkpoint;
	checkpoint->bitmap = bitmap_of(entry);
	if (kept) {
		checkpoint->written = bitmap_of(entry);
		checkpoint->stale = calloc(1, (size_t)record_blocks_for(entry->granules) + 1);
	}
	if (checkpoint->bitmap && (!kept || (checkpoint->written && checkpoint->stale)))
		return checkpoint;
	checkpoint_free(checkpoint);
	return NULL;
}

void
checkpoint_append(struct checkpoint *checkpoint)
{
	struct checkpoints *set = checkpoint->set;
	struct checkpoint **at = &set->first;

	checkpoint->next = NULL;
	pthread_mutex_lock(&set->mutex);
	while (*at)
		at = &(*at)->next;
	*at = checkpoint;
	set->count++;
	pthread_mutex_unlock(&set->mutex);
}

/* The record keeps them. */
static void
stop(struct checkpoints *set)
{
	struct freeze freeze;

	if (set->observed) {
		/* Some file systems set a file's times when they write back. */
		set->last_result = atomic_load(&set->kept) ? image_sync(set->image) : 0;
		freeze_begin(&freeze, &set->image, 1);
		image_unobserve(set->image, &set->observer);
		/* From now on, other images of the file may change it. */
		if (atomic_load(&set->kept) && set->last_result == 0)
			set->last_result = kept_see_image(set, &set->last);
		freeze_end(&freeze);
	}
	kept_close(set);
}

void
checkpoints_free(struct checkpoints *set)
{
	if (!set)
		return;
	stop(set);
	while (set->first) {
		struct checkpoint *checkpoint = set->first;

		set->first = checkpoint->next;
		checkpoint_free(checkpoint);
	}
	pthread_cond_destroy(&set->work);
	pthread_mutex_destroy(&set->queueing);
	pthread_mutex_destroy(&set->recording);
	pthread_mutex_destroy(&set->mutex);
	free(set->file);
	free(set);
}

static void
limit_all(struct checkpoints *set, uint64_t bytes)
{
	for (struct checkpoint *one = set->first; one; one = one->next)
		bitmap_limit(one->bitmap, bytes);
	kept_save(set);
}

void
checkpoints_resized(struct checkpoints *set)
{
	if (set && set->image && !set->kind && set->first)
		limit_all(set, image_size(set->image));
}

void
checkpoints_spoil(struct checkpoints *set)
{
	if (set && set->image && !set->kind && set->first)
		limit_all(set, 0);
}

bool
checkpoints_problem(struct checkpoints *set, char reason[REASON_MAX])
{
	if (!set || !atomic_load(&set->unknown))
		return false;
	pthread_mutex_lock(&set->mutex);
	memcpy(reason, set->problem, REASON_MAX);
	pthread_mutex_unlock(&set->mutex);
	return true;
}

const char *
checkpoints_file(const struct checkpoints *set)
{
	return set ? set->file : NULL;
}
