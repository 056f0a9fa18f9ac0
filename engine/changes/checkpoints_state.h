/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checkpoints of an image, for the files of this folder: checkpoint.c begins them,
 * ended.c ends them,
 * copied.c has what those of a snapshot know, and native.c those that the backing keeps. kept.c has
 * their record, kept_found.c takes the one over that is there, and recorder.c writes into it what
 * changes.
 */
#ifndef ENGINE_CHANGES_CHECKPOINTS_STATE_H
#define ENGINE_CHANGES_CHECKPOINTS_STATE_H

#include "engine/backing/kind.h"
#include "engine/changes/bitmap.h"
#include "engine/changes/checkpoint_facts.h"
#include "engine/changes/record.h"
#include "engine/io/observer.h"

#include <pthread.h>
#include <stdatomic.h>

struct range;

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

/* The set's mutex is held, or the set has bitmaps. Returns where the checkpoint of that name is in
 * the list, or the list's end. */
struct checkpoint **
checkpoints_find(struct checkpoints *set, const char *name);

/* Returns whether another image of the same backing is open for writing, and the i-th one is not.
 */
bool
checkpoints_is_left_to_another(struct checkpoints *const sets[], size_t count, size_t i);

/* All checkpoints of the set are unknown from now on, for that reason; only the first one counts.
 */
void
checkpoints_set_problem(struct checkpoints *set, const char *reason);

/* ---- kept.c */

/* Sets *witness to what the image is like. Returns 0 or -errno. */
int
kept_see_image(const struct checkpoints *set, struct witness *witness);

/* recording held. Writes the header with the present checkpoints and image. Returns 0 or -errno. */
int
kept_put(struct checkpoints *set);

/* recording held, or nobody else has the set yet. The record says that it is unknown, for that
 * reason; if it can't be written or removed, that is logged, and kept_retry() tries again. */
void
kept_give_up(struct checkpoints *set, const char *reason);

/* recording held. The changes are unknown from now on, for that reason. `err`: -errno, or 0. */
void
kept_lose_track(struct checkpoints *set, const char *what, int err);

/* recording held. The record has failed: its checkpoints are unknown, changes go on. `err`: -errno.
 */
void
kept_break(struct checkpoints *set, int err);

/* recording held. Tries again what kept_break() could not do. */
void
kept_retry(struct checkpoints *set);

/* Gets the set's record ready for another checkpoint. 0, or -errno with *error as
 * checkpoints_begin(). */
int
kept_prepare(struct checkpoints *set, char **error);

/* Makes room for a checkpoint in the record, if there is one. 0 or -errno. */
int
kept_make_room(struct checkpoint *checkpoint);

/* Writes the set's list into the record, if it has one, or removes the file if no checkpoint is
 * left. 0, or -errno, and the record is broken. */
int
kept_save(struct checkpoints *set);

/* Closes the record when the last checkpoint has ended, or the set. */
void
kept_close(struct checkpoints *set);

#endif
