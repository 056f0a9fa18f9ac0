/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checkpoints of an image as its record has them: written when checkpoints come and go, and at
 * the end. For what is there when the image is opened, see kept_found.c.
 */
#include "engine/changes/checkpoint.h"
#include "engine/changes/checkpoints_state.h"
#include "engine/changes/recorder.h"
#include "engine/image/image.h"
#include "engine/io/image_state.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *
path_of(const struct checkpoints *set)
{
	return set->image->backing.path;
}

int
kept_see_image(const struct checkpoints *set, struct witness *witness)
{
	return witness_take(witness, &set->image->backing, set->start, image_size(set->image));
}

/* ---- writing */

static bool
is_kept(const struct checkpoint *checkpoint)
{
	return !atomic_load(&checkpoint->over) && !atomic_load(&checkpoint->unsaved);
}

static void
fill_entries(struct checkpoints *set)
{
	struct record_header *header = &set->record.header;

	header->count = 0;
	pthread_mutex_lock(&set->mutex);
	for (struct checkpoint *one = set->first; one; one = one->next) {
		if (!is_kept(one))
			continue;
		if (bitmap_covered(one->bitmap) < one->entry.covered)
			one->entry.covered = bitmap_covered(one->bitmap);
		header->entries[header->count++] = one->entry;
	}
	pthread_mutex_unlock(&set->mutex);
}

int
kept_put(struct checkpoints *set)
{
	int r = kept_see_image(set, &set->record.header.witness);

	if (r < 0)
		return r;
	fill_entries(set);
	return record_put_header(&set->record);
}

void
kept_retry(struct checkpoints *set)
{
	if (set->still_trusted && record_give_up(&set->record, set->problem) == 0) {
		set->still_trusted = false;
		log_info("%s: says now that it is not to be trusted", set->file);
	}
}

void
kept_give_up(struct checkpoints *set, const char *reason)
{
	set->still_trusted = record_give_up(&set->record, reason) < 0;
	if (set->still_trusted)
		log_error("%s: it can't be removed either: remove it before another server trusts "
			  "it",
			  set->file);
}

void
kept_lose_track(struct checkpoints *set, const char *what, int err)
{
	char reason[REASON_MAX];

	if (atomic_load(&set->unknown))
		return;
	snprintf(reason, sizeof(reason), "%s%s%s", what, err ? ": " : "",
		 err ? strerror(-err) : "");
	checkpoints_set_problem(set, reason);
	atomic_store(&set->kept, false);
	log_error("%s: the changes since the checkpoints of %s are unknown from now on: %s: take "
		  "a full backup; clients are not affected",
		  set->file, path_of(set), reason);
	kept_give_up(set, reason);
}

void
kept_break(struct checkpoints *set, int err)
{
	kept_lose_track(set, "their record could not be written", err);
}

/* ---- checkpoints come and go */

static int
make_record(struct checkpoints *set, char **error)
{
	struct witness witness;
	int r = kept_see_image(set, &witness);

	if (r < 0)
		return error_set(error, r, "%s: can't tell whether it is changed by others: %s",
				 path_of(set), strerror(-r));
	r = record_create(&set->record, set->file, image_size(set->image), &witness, error);
	if (r < 0)
		return r;
	set->has_record = true;
	set->still_trusted = false;
	memset(set->touched, 0, sizeof(set->touched));
	atomic_store(&set->quiet, false);
	return 0;
}

/* recording held. */
static int
find_record(struct checkpoints *set, char **error)
{
	int r;

	if (set->has_record && atomic_load(&set->unknown))
		return error_set(error, -EIO,
				 "the changes since the checkpoints of this export are unknown "
				 "(%s): delete these first",
				 set->problem);
	if (set->has_record)
		return 0;
	r = record_open(&set->record, set->file, set->owner, error);
	if (r == 0) {
		record_close(&set->record);
		return error_set(error, -EEXIST,
				 "%s has checkpoints that this server does not know: remove it, or "
				 "open the export again",
				 set->file);
	}
	if (r != -ENOENT)
		return r;
	r = make_record(set, error);
	if (r == 0) {
		pthread_mutex_lock(&set->mutex);
		set->problem[0] = '\0';
		pthread_mutex_unlock(&set->mutex);
		atomic_store(&set->unknown, false);
	}
	return r;
}

int
kept_prepare(struct checkpoints *set, char **error)
{
	int r;

	if (!set->file)
		return 0;
	pthread_mutex_lock(&set->recording);
	r = find_record(set, error);
	pthread_mutex_unlock(&set->recording);
	return r < 0 ? r : recorder_start(set);
}

int
kept_make_room(struct checkpoint *checkpoint)
{
	struct checkpoints *set = checkpoint->set;

	if (!checkpoint->written)
		return 0;
	/* Changes must not wait for the rest. */
	pthread_mutex_lock(&set->recording);
	record_find_room(&set->record, &checkpoint->entry);
	pthread_mutex_unlock(&set->recording);
	return record_clear_room(&set->record, &checkpoint->entry);
}

static bool
has_some(struct checkpoints *set)
{
	const struct checkpoint *one;

	pthread_mutex_lock(&set->mutex);
	for (one = set->first; one && !is_kept(one); one = one->next)
		;
	pthread_mutex_unlock(&set->mutex);
	return one != NULL;
}

int
kept_save(struct checkpoints *set)
{
	int r = 0;

	pthread_mutex_lock(&set->recording);
	if (set->has_record)
		r = has_some(set) ? kept_put(set) : record_remove(&set->record);
	if (r < 0)
		kept_break(set, r);
	pthread_mutex_unlock(&set->recording);
	return r;
}

/* recording held. The set sees no change any more. */
static void
close_in_order(struct checkpoints *set)
{
	/* What is lost has changed, too, and nobody knows what that is. */
	int r = set->last_result < 0 ? set->last_result : image_sync(set->image);

	if (r < 0) {
		kept_lose_track(set, "the image could not be written back at the end", r);
		return;
	}
	set->record.header.state = RECORD_CLOSED;
	set->record.header.witness = set->last;
	memset(set->record.header.regions, 0, sizeof(set->record.header.regions));
	/* All marks must be durable before the header that says so. */
	r = record_sync(&set->record);
	fill_entries(set);
	if (r == 0)
		r = record_put_header(&set->record);
	if (r < 0)
		kept_break(set, r);
}

void
kept_close(struct checkpoints *set)
{
	bool ended;

	recorder_stop(set);
	pthread_mutex_lock(&set->recording);
	if (set->has_record) {
		if (atomic_load(&set->kept) && has_some(set))
			close_in_order(set);
		kept_retry(set);
		record_close(&set->record);
	}
	ended = set->has_record && !set->first;
	set->has_record = false;
	atomic_store(&set->kept, false);
	pthread_mutex_unlock(&set->recording);
	if (!ended)
		return;
	pthread_mutex_lock(&set->mutex);
	set->problem[0] = '\0';
	pthread_mutex_unlock(&set->mutex);
	atomic_store(&set->unknown, false);
}
