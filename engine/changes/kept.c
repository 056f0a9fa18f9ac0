/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checkpoints of an image as its record has them: read when the image is opened, and written
 * when checkpoints come and go, and at the end.
 */
#include "engine/changes/checkpoint.h"
#include "engine/changes/checkpoints_state.h"
#include "engine/changes/recorder.h"
#include "engine/image/freeze.h"
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

/* recording held. The changes are unknown from now on, for that reason. `err`: -errno, or 0. */
static void
lose_track(struct checkpoints *set, const char *what, int err)
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
	set->still_trusted = record_give_up(&set->record, reason) < 0;
	if (set->still_trusted)
		log_error("%s: it can't be removed either: remove it before another server trusts "
			  "it",
			  set->file);
}

void
kept_break(struct checkpoints *set, int err)
{
	lose_track(set, "their record could not be written", err);
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
		lose_track(set, "the image could not be written back at the end", r);
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

/* ---- reading */

/* Adds the marks of the record to a checkpoint. Returns 0, -EBADMSG or -errno. */
static int
read_marks(struct checkpoint *checkpoint, const struct record *record)
{
	uint64_t blocks = record_blocks_for(checkpoint->entry.granules);
	uint64_t words[RECORD_BLOCK_WORDS];

	for (uint64_t n = 0; n < blocks; n++) {
		int r = record_get_block(record, &checkpoint->entry, (uint32_t)n, words);

		if (r < 0)
			return r;
		bitmap_add(checkpoint->written, n * RECORD_BLOCK_WORDS, RECORD_BLOCK_WORDS, words);
	}
	return 0;
}

static void
mark_regions(struct checkpoint *checkpoint, const struct record_header *header)
{
	for (uint64_t region = 0; region < RECORD_REGIONS; region++) {
		uint64_t start = region * header->region;

		if (header->regions[region / 64] >> region % 64 & 1)
			bitmap_mark(checkpoint->written, start,
				    region == RECORD_REGIONS - 1 ? UINT64_MAX
								 : start + header->region);
	}
}

/* Copies the marks from .written, and has all blocks written. */
static void
take_marks(struct checkpoint *checkpoint)
{
	uint64_t blocks = record_blocks_for(checkpoint->entry.granules);
	uint64_t words[RECORD_BLOCK_WORDS];

	for (uint64_t n = 0; n < blocks; n++) {
		bitmap_read(checkpoint->written, n * RECORD_BLOCK_WORDS, RECORD_BLOCK_WORDS, words);
		bitmap_add(checkpoint->bitmap, n * RECORD_BLOCK_WORDS, RECORD_BLOCK_WORDS, words);
	}
	checkpoint_set_stale(checkpoint, 0, blocks);
	bitmap_limit(checkpoint->bitmap, checkpoint->entry.covered);
	bitmap_limit(checkpoint->bitmap, image_size(checkpoint->set->image));
}

/* What becomes of a record; all but the first have a reason. */
enum verdict {
	GOOD,
	REFUSED, /* nobody must ever trust it again, even if the image gets its old size or times
		    back */
	LEFT,    /* not this time: it is of another image, or can't be read now */
};

/* Sets *now to what the image is like. */
static enum verdict
judge(struct checkpoints *set, struct witness *now, char reason[REASON_MAX])
{
	const struct record_header *header = &set->record.header;
	/* What is written back later would look like a change. */
	int r = image_sync(set->image);

	if (r == 0)
		r = kept_see_image(set, now);
	if (r < 0) {
		snprintf(reason, REASON_MAX, "can't tell whether the image was changed: %s",
			 strerror(-r));
		return LEFT;
	}
	if (!witness_is_of_image(&header->witness, now, reason))
		return LEFT;
	if (header->state == RECORD_UNKNOWN) {
		snprintf(reason, REASON_MAX, "%s", header->reason);
		return REFUSED;
	}
	return witness_agrees(&header->witness, now, header->state == RECORD_CLOSED, reason)
		       ? GOOD
		       : REFUSED;
}

/* Makes the checkpoints. Those of a record that is refused only have a name. Returns 0 or -ENOMEM.
 */
static int
make_checkpoints(struct checkpoints *set, bool good)
{
	const struct record_header *header = &set->record.header;

	for (uint32_t i = 0; i < header->count; i++) {
		struct record_entry entry = header->entries[i];
		struct checkpoint *checkpoint;

		if (!good)
			entry.granules = entry.covered = 0;
		checkpoint = checkpoint_new(set, &entry, good);
		if (!checkpoint)
			return -ENOMEM;
		checkpoint->entry = header->entries[i];
		checkpoint_append(checkpoint);
	}
	return 0;
}

/* Reads the marks of all checkpoints. */
static enum verdict
read_all_marks(struct checkpoints *set, const struct witness *now, char reason[REASON_MAX])
{
	const struct record_header *header = &set->record.header;
	bool cut = header->state == RECORD_IN_USE && !witness_same_boot(&header->witness, now);

	for (struct checkpoint *one = set->first; one; one = one->next) {
		int r = read_marks(one, &set->record);

		if (r < 0) {
			snprintf(reason, REASON_MAX, "their record %s%s",
				 r == -EBADMSG ? "is torn or corrupted" : "can't be read: ",
				 r == -EBADMSG ? "" : strerror(-r));
			return r == -EBADMSG ? REFUSED : LEFT;
		}
		if (cut)
			mark_regions(one, header);
		take_marks(one);
	}
	return GOOD;
}

/* recording held. The marks that are known now must be there before the record goes on as one of
 * this boot. */
static int
prepare_to_go_on(struct checkpoints *set)
{
	struct record_header *header = &set->record.header;
	int r = recorder_put_blocks(set);

	if (r == 0)
		r = record_sync(&set->record);
	header->state = RECORD_IN_USE;
	memset(header->regions, 0, sizeof(header->regions));
	return r < 0 ? r : recorder_start(set);
}

/* Observes the image. Returns whether nobody has changed it since it was `judged`. */
static bool
observe(struct checkpoints *set, const struct witness *judged, bool kept)
{
	struct witness now;
	struct freeze freeze;
	bool untouched;

	freeze_begin(&freeze, &set->image, 1);
	untouched = kept_see_image(set, &now) == 0 && witness_is_untouched(judged, &now);
	/* The header is still the old one, which the first change must renew. */
	atomic_store(&set->quiet, true);
	atomic_store(&set->kept, kept && untouched);
	image_observe(set->image, &set->observer);
	set->observed = true;
	freeze_end(&freeze);
	return untouched;
}

/*
 * `judged`: what the image was like then. Until the set observes it, others may change it: other
 * exports of this server, too. So only after that, the record says that it is in use: the next
 * server takes such changes for noted ones if this one is killed.
 */
static void
start_recording(struct checkpoints *set, const struct witness *judged)
{
	bool untouched;
	int r;

	pthread_mutex_lock(&set->recording);
	r = prepare_to_go_on(set);
	pthread_mutex_unlock(&set->recording);
	untouched = observe(set, judged, r == 0);
	pthread_mutex_lock(&set->recording);
	if (r == 0 && !untouched)
		lose_track(set, "the image was changed while it was opened", 0);
	else if (r == 0 && atomic_load(&set->kept))
		r = kept_put(set);
	if (r < 0)
		kept_break(set, r);
	pthread_mutex_unlock(&set->recording);
}

static void
say_unknown(struct checkpoints *set, const char *reason)
{
	checkpoints_set_problem(set, reason);
	log_error("%s: the changes since the checkpoints of %s are unknown: %s: take a full backup",
		  set->file, path_of(set), reason);
}

/* The file stays as it is, and the set has nothing to do with it. */
static void
leave_record(struct checkpoints *set)
{
	while (set->first) {
		struct checkpoint *checkpoint = set->first;

		set->first = checkpoint->next;
		set->count--;
		checkpoint_free(checkpoint);
	}
	record_close(&set->record);
	set->has_record = false;
}

/* Takes the checkpoints of the record over, which is open. */
static void
take_record(struct checkpoints *set)
{
	char reason[REASON_MAX];
	struct witness now;
	enum verdict verdict = judge(set, &now, reason);

	set->has_record = true;
	if (verdict != LEFT && make_checkpoints(set, verdict == GOOD) < 0) {
		snprintf(reason, sizeof(reason), "there is not enough memory");
		verdict = LEFT;
	}
	if (verdict == GOOD)
		verdict = read_all_marks(set, &now, reason);
	if (verdict == GOOD) {
		start_recording(set, &now);
		return;
	}
	say_unknown(set, reason);
	if (verdict == REFUSED)
		set->still_trusted = record_give_up(&set->record, reason) < 0;
	else
		leave_record(set);
}

int
checkpoints_keep(struct checkpoints *set, const char *file, uid_t owner)
{
	char *CLEANUP_FREE error = NULL;
	int r;

	set->file = strdup(file);
	if (!set->file)
		return -ENOMEM;
	set->owner = owner;
	r = record_open(&set->record, set->file, owner, &error);
	if (r == 0) {
		take_record(set);
	} else if (r != -ENOENT) {
		checkpoints_set_problem(set, error ? error : strerror(-r));
		log_error("%s; the changes since its checkpoints are unknown: take a full backup",
			  error ? error : set->file);
	}
	return 0;
}
