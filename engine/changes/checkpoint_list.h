/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of an image's checkpoints, and all that is known of the set: what the files of this
 * folder share. Above it are native_checkpoint.c, which has the list follow the backing's;
 * record_keeper.c, recorder.c and record_recovery.c, which keep it in a record; and checkpoint.c,
 * which begins and ends checkpoints.
 */
#ifndef ENGINE_CHANGES_CHECKPOINT_LIST_H
#define ENGINE_CHANGES_CHECKPOINT_LIST_H

#include "engine/backing/kind.h"
#include "engine/bitmap.h"
#include "engine/changes/checkpoint_facts.h"
#include "engine/changes/record.h"
#include "engine/io/observer.h"
#include "engine/io/range.h"

#include <pthread.h>
#include <stdatomic.h>

struct checkpoint {
	struct checkpoints *set;
	struct checkpoint_facts facts;
	struct bitmap *bitmap; /* what questions are answered from; NULL: it is native */
	struct backing_checkpoint native;
	struct backing_snapshot *making; /* native and not begun: what it is to be */
	const struct checkpoint *of; /* of a copy, until it is filled: what it is to be a copy of */
	_Atomic bool over; /* set before it leaves the list, and when it leaves the record */
	/* It has begun, but is not in the record yet: the image is not durable as it was then. */
	_Atomic bool unsaved;
	unsigned int users; /* the set's list, and those that hold it; guarded by the set's mutex */
	struct checkpoint *next;

	/* With a record; the recorder's, or of the holder of .recording. */
	struct bitmap *written; /* what the record has, or will have before the changes go on */
	uint8_t *stale;         /* for each block of the record: it lacks something of .written */
	uint64_t stale_first, stale_end; /* there are none outside of these */
	struct record_entry entry;
};

struct checkpoints {
	struct image *image; /* NULL: it is a copy */
	uint64_t start;      /* of the image in its file, in bytes */

	const struct backing_checkpoints *kind; /* native ones; NULL: bitmaps. Constant */
	bool followed; /* the list is what the backing had in .edition; guarded by .mutex */
	uint64_t edition;

	struct observer observer;
	bool observed; /* the image's file has the observer; of the control path */
	/* Changes must be in the record before they go on. Becomes true only while no change is in
	 * flight. */
	_Atomic bool kept;
	/* Nothing has changed since the record's witness, and the next change must renew it. */
	_Atomic bool quiet;
	_Atomic bool unknown; /* .problem is set */

	/* Held only for moments. The list has its members changed only while, besides, no change is
	 * in flight: changes read it without the mutex. */
	pthread_mutex_t mutex;
	struct checkpoint *first; /* oldest first */
	size_t count;
	char problem[REASON_MAX]; /* why all is unknown, or "" */

	char *file;  /* of the record; NULL: there is none, ever. Constant after checkpoints_keep()
		      */
	uid_t owner; /* to whom the record may belong; constant, too */
	pthread_mutex_t recording; /* guards the members below; held while the disk works. Never
				      taken by a change, nor held while changes are stopped */
	bool has_record;
	struct record record;
	bool still_trusted; /* nothing could be done to a record that must not be trusted any more
			     */
	uint64_t touched[RECORD_REGIONS / 64]; /* regions that were used since the last sweep */

	/* Of the control path: what the image was like when the set saw its last change; 0, or
	 * -errno if it could not be made durable before, or looked at. */
	struct witness last;
	int last_result;

	/* Of recorder.c. */
	pthread_t thread;
	bool running;             /* of the control path */
	pthread_mutex_t queueing; /* guards the members below; held only for moments */
	pthread_cond_t work;
	struct range *queue;
	bool stop;
};

/* Makes a checkpoint that is in no list, from an entry. `kept`: for a record. NULL: no memory. */
struct checkpoint *
checkpoint_new(struct checkpoints *set, const struct record_entry *entry, bool kept);

/* Frees one that is in no list. A native one that was made, and is not to stay, is removed. */
void
checkpoint_free(struct checkpoint *checkpoint);

/* Puts it at the end of the list. No change is in flight. */
void
checkpoint_append(struct checkpoint *checkpoint);

/* Frees all in the list. No change, and nobody else, uses the set. */
void
checkpoint_list_empty(struct checkpoints *set);

/* The set's mutex is held, or the set has bitmaps. Returns where the checkpoint of that name is in
 * the list, or the list's end. */
struct checkpoint **
checkpoint_list_find(struct checkpoints *set, const char *name);

/* The part of a change in the image. The ranges of other images of the same file may lie before
 * this image, or after it. Returns false if all of it lies before. */
static inline bool
checkpoint_list_part(const struct checkpoints *set, const struct range *range, uint64_t *start,
		     uint64_t *end)
{
	*start = range->start > set->start ? range->start - set->start : 0;
	*end = range->end - set->start;
	return range->end > set->start;
}

/* All checkpoints of the set are unknown from now on, for that reason; only the first one counts.
 */
void
checkpoint_list_set_unknown(struct checkpoints *set, const char *reason);

/* They are known again, since there are none. */
void
checkpoint_list_set_known(struct checkpoints *set);

#endif
