/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/record_recovery.h"

#include "engine/changes/record_keeper.h"
#include "engine/changes/recorder.h"
#include "engine/image/freeze.h"
#include "engine/image/image.h"
#include "engine/io/image_state.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- reading */

/* Adds the marks of the record to a checkpoint. Returns 0, -EBADMSG or -errno. */
static int
recovery_read_marks(struct checkpoint *checkpoint, const struct record *record)
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
recovery_mark_regions(struct checkpoint *checkpoint, const struct record_header *header)
{
	for (uint64_t region = 0; region < RECORD_REGIONS; region++) {
		uint64_t start = region * header->region;

		if (header->regions[region / 64] >> region % 64 & 1)
			bitmap_mark(checkpoint->written, start,
				    region == RECORD_REGIONS - 1 ? UINT64_MAX
								 : start + header->region);
	}
}

/* The fates of a record; all but the first have a reason. */
enum verdict {
	GOOD,
	REFUSED, /* nobody must ever trust it again, even if the image gets its old size or times
		    back */
	LEFT,    /* not this time: it is of another image, or can't be read now */
};

/*
 * The fate of a record that can't be read now. From now on nobody notes what changes. If it was
 * closed, the next server sees that the image has changed. If its server was killed, the next one
 * would take the changes of the first seconds for noted ones.
 */
static enum verdict
recovery_judge_unread(const struct record *record)
{
	return record->header.state == RECORD_CLOSED ? LEFT : REFUSED;
}

/* Sets *now to what the image is like. */
static enum verdict
recovery_judge(struct checkpoints *set, struct witness *now, char reason[REASON_MAX])
{
	const struct record_header *header = &set->record.header;
	/* What is written back later would look like a change. */
	int r = image_sync(set->image), seen = keeper_see_image(set, now);

	/* A closed one was durable before its server ended. */
	if (set->record.lost < 0 && header->state != RECORD_CLOSED) {
		snprintf(reason, REASON_MAX,
			 "their record could not be written back, or can't be read: %s",
			 strerror(-set->record.lost));
		return REFUSED;
	}
	if (seen == 0 && !witness_is_of_image(&header->witness, now, reason))
		return LEFT;
	if (image_others_may_write(set->image)) {
		snprintf(reason, REASON_MAX,
			 "with lock=shared or off, another server may change the image unseen");
		return REFUSED;
	}
	r = r < 0 ? r : seen;
	if (r < 0) {
		snprintf(reason, REASON_MAX, "can't tell whether the image was changed: %s",
			 strerror(-r));
		return recovery_judge_unread(&set->record);
	}
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
recovery_make_checkpoints(struct checkpoints *set, bool good)
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
recovery_read(struct checkpoints *set, const struct witness *now, char reason[REASON_MAX])
{
	const struct record_header *header = &set->record.header;
	bool cut = header->state == RECORD_IN_USE && !witness_same_boot(&header->witness, now);

	for (struct checkpoint *one = set->first; one; one = one->next) {
		int r = recovery_read_marks(one, &set->record);

		if (r < 0) {
			snprintf(reason, REASON_MAX, "their record %s%s",
				 r == -EBADMSG ? "is torn or corrupted" : "can't be read: ",
				 r == -EBADMSG ? "" : strerror(-r));
			return r == -EBADMSG ? REFUSED : recovery_judge_unread(&set->record);
		}
		if (cut)
			recovery_mark_regions(one, header);
		bitmap_copy(one->bitmap, one->written);
		bitmap_limit(one->bitmap, image_size(set->image));
		keeper_set_stale(one, 0, record_blocks_for(one->entry.granules));
	}
	return GOOD;
}

/* recording held. The marks that are known now must be there before the record goes on as one of
 * this boot. That of a killed server is closed: for a change until the set observes the image,
 * nobody must take that server to be its author any more. */
static int
recovery_prepare(struct checkpoints *set, const struct witness *judged)
{
	struct record_header *header = &set->record.header;
	int r = keeper_put_blocks(set);

	if (r == 0)
		r = record_sync(&set->record);
	memset(header->regions, 0, sizeof(header->regions));
	if (r == 0 && header->state == RECORD_IN_USE) {
		header->state = RECORD_CLOSED;
		header->witness = *judged;
		r = record_put_header(&set->record);
	}
	header->state = RECORD_IN_USE;
	if (r == 0)
		r = recorder_start(set);
	if (r < 0)
		keeper_break(set, r);
	return r;
}

/* Observes the image. Returns whether nobody has changed it since it was `judged`. */
static bool
recovery_observe(struct checkpoints *set, const struct witness *judged, bool kept)
{
	struct witness now;
	struct freeze freeze;
	bool untouched;

	freeze_begin(&freeze, &set->image, 1);
	untouched = keeper_see_image(set, &now) == 0 && witness_is_untouched(judged, &now);
	/* The header is still the old one, which the first change must renew. */
	atomic_store(&set->quiet, true);
	atomic_store(&set->kept, kept && untouched);
	observer_add(set->image->ranges, &set->observer);
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
recovery_start(struct checkpoints *set, const struct witness *judged)
{
	bool untouched;
	int r;

	pthread_mutex_lock(&set->recording);
	r = recovery_prepare(set, judged);
	pthread_mutex_unlock(&set->recording);
	untouched = recovery_observe(set, judged, r == 0);
	pthread_mutex_lock(&set->recording);
	if (r == 0 && !untouched)
		keeper_lose_track(set, "the image was changed while it was opened", 0);
	else if (r == 0 && atomic_load(&set->kept) && (r = keeper_put_header(set)) < 0)
		keeper_break(set, r);
	pthread_mutex_unlock(&set->recording);
}

/* Takes the checkpoints of the record over, which is open. */
static void
recovery_take(struct checkpoints *set)
{
	char reason[REASON_MAX];
	struct witness now;
	enum verdict verdict = recovery_judge(set, &now, reason);

	set->has_record = true;
	if (verdict != LEFT && recovery_make_checkpoints(set, verdict == GOOD) < 0) {
		snprintf(reason, sizeof(reason), "there is not enough memory");
		verdict = recovery_judge_unread(&set->record);
	}
	if (verdict == GOOD)
		verdict = recovery_read(set, &now, reason);
	if (verdict == GOOD) {
		recovery_start(set, &now);
		return;
	}
	checkpoint_list_set_unknown(set, reason);
	log_error("%s: the changes since the checkpoints of %s are unknown: %s: take a full backup",
		  set->file, set->image->backing.path, reason);
	if (verdict == REFUSED) {
		keeper_give_up(set, reason);
		return;
	}
	/* The file stays as it is, and the set has nothing to do with it. */
	checkpoint_list_empty(set);
	record_close(&set->record);
	set->has_record = false;
}

int
recovery_open(struct checkpoints *set)
{
	char *CLEANUP_FREE error = NULL;
	int r = record_open(&set->record, set->file, set->owner, &error);

	if (r == 0) {
		recovery_take(set);
	} else if (r == -ENOMEM || r == -EMFILE || r == -ENFILE) {
		/* The record would be trusted again, without what changes meanwhile. */
		return r;
	} else if (r != -ENOENT) {
		checkpoint_list_set_unknown(set, error ? error : strerror(-r));
		log_error("%s; the changes since its checkpoints are unknown: take a full backup",
			  error ? error : set->file);
	}
	return 0;
}
