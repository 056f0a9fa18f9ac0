/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keeper of a set's record: puts into it what the set knows, when checkpoints come and go,
 * when something changes (recorder.h calls it then), and at the end. If the record fails, the
 * checkpoints are unknown from then on, and it says so.
 *
 * Functions with "recording" in their comment: the caller holds the set's .recording, or nobody
 * else has the set yet.
 */
#ifndef ENGINE_CHANGES_RECORD_KEEPER_H
#define ENGINE_CHANGES_RECORD_KEEPER_H

#include "engine/changes/checkpoint_list.h"

/* Sets *witness to what the image is like. Returns 0 or -errno. */
int
keeper_see_image(const struct checkpoints *set, struct witness *witness);

/* Gets the set's record, if it is to have one, ready for another checkpoint. Returns 0, or -errno
 * with *error as checkpoints_begin(). */
int
keeper_prepare(struct checkpoints *set, char **error);

/* Makes room for a checkpoint in the record, if there is one. Returns 0 or -errno. */
int
keeper_make_room(struct checkpoint *checkpoint);

/* Writes the set's list into the record, if it has one, or removes the file if no checkpoint is
 * left. Returns 0, or -errno, and the record is broken. */
int
keeper_save(struct checkpoints *set);

/* Closes the record when the last checkpoint has ended, or the set. The recorder has ended. */
void
keeper_close(struct checkpoints *set);

/* Recording. The blocks from `first` up to `end` of a checkpoint's bitmap in the record lack
 * something of its .written. */
void
keeper_set_stale(struct checkpoint *checkpoint, uint64_t first, uint64_t end);

/* Recording. Writes what the record lacks of all checkpoints' .written, into the page cache.
 * Returns 0 or -errno. */
int
keeper_put_blocks(struct checkpoints *set);

/* Recording. Writes the header with the present checkpoints and image. Returns 0 or -errno. */
int
keeper_put_header(struct checkpoints *set);

/* Recording. The record says that it is unknown, for that reason; if it can't be written or
 * removed, that is logged, and keeper_retry() tries again. */
void
keeper_give_up(struct checkpoints *set, const char *reason);
void
keeper_retry(struct checkpoints *set);

/* Recording. The changes are unknown from now on, for that reason. `err`: -errno, or 0. */
void
keeper_lose_track(struct checkpoints *set, const char *what, int err);

/* Recording. The record has failed: its checkpoints are unknown, changes go on. `err`: -errno. */
void
keeper_break(struct checkpoints *set, int err);

#endif
