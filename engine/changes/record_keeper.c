/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/record_keeper.h"

#include "engine/image/image.h"
#include "engine/io/image_state.h"

#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int
keeper_see_image(const struct checkpoints *set, struct witness *witness)
{
	return witness_take(witness, &set->image->backing, set->start, image_size(set->image));
}

/* ---- writing */

/* Lists in the header the checkpoints that the record is to have. Returns whether there are any. */
static bool
keeper_list(struct checkpoints *set)
{
	struct record_header *header = &set->record.header;

	header->count = 0;
	pthread_mutex_lock(&set->mutex);
	for (struct checkpoint *one = set->first; one; one = one->next) {
		if (atomic_load(&one->over) || atomic_load(&one->unsaved))
			continue;
		if (bitmap_covered(one->bitmap) < one->entry.covered)
			one->entry.covered = bitmap_covered(one->bitmap);
		header->entries[header->count++] = one->entry;
	}
	pthread_mutex_unlock(&set->mutex);
	return header->count > 0;
}

void
keeper_set_stale(struct checkpoint *checkpoint, uint64_t first, uint64_t end)
{
	bool none = checkpoint->stale_first == checkpoint->stale_end;

	memset(checkpoint->stale + first, 1, (size_t)(end - first));
	if (none || first < checkpoint->stale_first)
		checkpoint->stale_first = first;
	if (none || end > checkpoint->stale_end)
		checkpoint->stale_end = end;
}

static int
keeper_put_checkpoint(struct checkpoints *set, struct checkpoint *checkpoint)
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
keeper_put_blocks(struct checkpoints *set)
{
	int r = 0;

	for (struct checkpoint *one = set->first; r == 0 && one; one = one->next)
		r = keeper_put_checkpoint(set, one);
	return r;
}

int
keeper_put_header(struct checkpoints *set)
{
	int r = keeper_see_image(set, &set->record.header.witness);

	if (r < 0)
		return r;
	keeper_list(set);
	return record_put_header(&set->record);
}

void
keeper_retry(struct checkpoints *set)
{
	if (set->still_trusted && record_give_up(&set->record, set->problem) == 0) {
		set->still_trusted = false;
		log_info("%s: marked as untrusted now", set->file);
	}
}

void
keeper_give_up(struct checkpoints *set, const char *reason)
{
	set->still_trusted = record_give_up(&set->record, reason) < 0;
	if (set->still_trusted)
		log_error(
			"%s: cannot be marked as untrusted, or removed: remove this file before another server trusts it",
			set->file);
}

void
keeper_lose_track(struct checkpoints *set, const char *what, int err)
{
	char reason[REASON_MAX];

	if (atomic_load(&set->unknown))
		return;
	snprintf(reason, sizeof(reason), "%s%s%s", what, err ? ": " : "",
		 err ? strerror(-err) : "");
	checkpoint_list_set_unknown(set, reason);
	log_error("%s: the changes since the checkpoints of %s are unknown from now on: %s: take "
		  "a full backup; clients are not affected",
		  set->file, set->image->backing.path, reason);
	keeper_give_up(set, reason);
	/* Only now changes go on without a mark: if the server were killed before, the next one
	 * would trust the record. */
	atomic_store(&set->kept, false);
}

void
keeper_break(struct checkpoints *set, int err)
{
	keeper_lose_track(set, "their record could not be written", err);
}

/* ---- checkpoints come and go */

static int
keeper_make_record(struct checkpoints *set, char **error)
{
	struct witness witness;
	int r = keeper_see_image(set, &witness);

	if (r < 0)
		return error_set(
			error, r,
			"%s: no checkpoints, because changes by other programs would not be noticed: %s",
			set->image->backing.path, strerror(-r));
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
keeper_find_record(struct checkpoints *set, char **error)
{
	int r;

	if (set->has_record && atomic_load(&set->unknown))
		return error_set(
			error, -EIO,
			"the changes since the checkpoints of this export are unknown (%s): delete these checkpoints first",
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
	r = keeper_make_record(set, error);
	if (r == 0)
		checkpoint_list_set_known(set);
	return r;
}

int
keeper_prepare(struct checkpoints *set, char **error)
{
	int r;

	if (!set->file)
		return 0;
	pthread_mutex_lock(&set->recording);
	r = keeper_find_record(set, error);
	pthread_mutex_unlock(&set->recording);
	return r;
}

int
keeper_make_room(struct checkpoint *checkpoint)
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

int
keeper_save(struct checkpoints *set)
{
	int r = 0;

	pthread_mutex_lock(&set->recording);
	if (set->has_record)
		r = keeper_list(set) ? keeper_put_header(set) : record_remove(&set->record);
	if (r < 0)
		keeper_break(set, r);
	pthread_mutex_unlock(&set->recording);
	return r;
}

/* recording held. The set sees no change any more. */
static void
keeper_close_in_order(struct checkpoints *set)
{
	/* What is lost has changed, too, and nobody knows what that is. */
	int r = set->last_result < 0 ? set->last_result : image_sync(set->image);

	if (r < 0) {
		keeper_lose_track(set, "the image could not be written back at the end", r);
		return;
	}
	set->record.header.state = RECORD_CLOSED;
	set->record.header.witness = set->last;
	memset(set->record.header.regions, 0, sizeof(set->record.header.regions));
	/* All marks must be durable before the header that says so. */
	r = record_sync(&set->record);
	if (r == 0)
		r = record_put_header(&set->record);
	if (r < 0)
		keeper_break(set, r);
}

void
keeper_close(struct checkpoints *set)
{
	bool ended;

	pthread_mutex_lock(&set->recording);
	if (set->has_record) {
		if (atomic_load(&set->kept) && keeper_list(set))
			keeper_close_in_order(set);
		keeper_retry(set);
		record_close(&set->record);
	}
	ended = set->has_record && !set->first;
	set->has_record = false;
	atomic_store(&set->kept, false);
	pthread_mutex_unlock(&set->recording);
	if (ended)
		checkpoint_list_set_known(set);
}
