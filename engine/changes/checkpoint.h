/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints of an image: from a moment on, each notes which granules of the image are changed. A
 * granule may be noted although its bytes are the same; one that has changed is never missing.
 *
 * They are in memory, and end with the set, unless they are kept in a record: a file that the next
 * process reads. Then a change waits until the record notes what it touches for the first time, so
 * that the record tells too much rather than too little when
 *
 * - the process was killed: all that was noted, and no more;
 * - the kernel or the power has failed: besides, all granules of the regions (16 MiB, or 1/4096 of
 *   the image) in which something was touched for the first time in the last 20 seconds.
 *
 * If this can't be told of a record, or it can't be written any more, all checkpoints in it are
 * unknown.
 *
 * A backing may keep checkpoints by itself. Then nothing is noted here, and the backing is asked.
 */
#ifndef ENGINE_CHANGES_CHECKPOINT_H
#define ENGINE_CHANGES_CHECKPOINT_H

#include "engine/backing/backing.h"
#include "engine/changes/checkpoint_facts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct checkpoint;
struct image;

/* The checkpoints of one image. */
struct checkpoints;

/* Makes a set, or returns NULL if there is no memory. The image must outlive it. The set is empty,
 * or has the checkpoints that the image's backing keeps by itself (native_checkpoint.h). Only this
 * kind of set changes; for the other one see checkpoints_prepare_copy(). */
struct checkpoints *
checkpoints_new(struct image *image);

/*
 * Keeps the checkpoints in a record, at that path, which exists only while there are some; those
 * that it has come back. To be called once, before the image is used, and when no other process
 * changes it; not for a backing that keeps them. `owner`: a user to whom the record may belong,
 * besides root and the process's own. Returns 0, or -ENOMEM. Logs why those of a record are
 * unknown. Waits for disks.
 */
int
checkpoints_keep(struct checkpoints *set, const char *file, uid_t owner);

/* Frees the set. A record keeps its checkpoints. None may be held. Waits for the changes in flight
 * of the image's file, and for disks. NULL is allowed. */
void
checkpoints_free(struct checkpoints *set);

/* ---- changes: one at a time */

/*
 * Begins a checkpoint of that name in each of `count` sets, which differ, at one moment in the
 * order of all changes (engine/image/freeze.h). `granule`: in bytes. Waits for the changes in
 * flight; and while a backing begins one of its own, for some seconds, changes of all images wait.
 * Returns 0, or -errno with *error, a sentence (the caller frees it; NULL: no memory); then there
 * is none in any set.
 */
int
checkpoints_begin(struct checkpoints *const sets[], size_t count, const char *name,
		  uint64_t granule, char **error);

/* Ends the checkpoint of that name in each of `count` sets; those that a backing keeps may lack it.
 * Waits for the changes in flight, and for backings that keep it. Returns 0, or -errno with *error,
 * as above; then none has ended, but for those of some such backings. */
int
checkpoints_end(struct checkpoints *const sets[], size_t count, const char *name, char **error);

/* The same for one that has just begun, and must not stay. What can't be ended is in the log. */
void
checkpoints_undo(struct checkpoints *const sets[], size_t count, const char *name);

/*
 * checkpoints_begin() in parts, for a moment that the caller makes. The first part does all
 * that can fail before, and returns as checkpoints_begin() does, with *prepared; the second one,
 * between freeze_begin() and freeze_end() for the images of all sets, has the backings make what
 * they keep, until a time of clock_ms(CLOCK_MONOTONIC), and returns alike; the third one, in the
 * same moment, begins. checkpoints_discard() undoes the first two. NULL is prepared to begin
 * nothing.
 */
int
checkpoints_prepare(struct checkpoints *const sets[], size_t count, const char *name,
		    uint64_t granule, struct checkpoint **prepared, char **error);
int
checkpoints_make_prepared(const struct checkpoint *prepared, int64_t end, char **error);
void
checkpoints_begin_prepared(struct checkpoint *prepared);
void
checkpoints_discard(struct checkpoint *prepared);

/* The end of checkpoints_begin(), after freeze_end(): only now the checkpoint outlives the process.
 * Before that, what was acknowledged before it is made durable. Waits for the disks. Returns as
 * checkpoints_begin(), and has ended it then. */
int
checkpoints_save_begun(struct checkpoints *const sets[], size_t count, const char *name,
		       char **error);

/*
 * Makes a set that is to have what the checkpoints of `set`, with a prepared one (or NULL), know at
 * a moment. It never changes, and has no image. NULL: no memory. The caller frees it with
 * checkpoints_free(). Before any other change of `set`, checkpoints_copy() fills it, at a moment in
 * which no change of the image is in flight; and checkpoints_of_snapshot() tells it of a snapshot
 * of that moment, which must outlive it: there, the backing has the checkpoints that it keeps.
 */
struct checkpoints *
checkpoints_prepare_copy(const struct checkpoints *set, const struct checkpoint *prepared);
void
checkpoints_copy(struct checkpoints *copy);
void
checkpoints_of_snapshot(struct checkpoints *copy, struct image *snapshot);

/* To be called after each change of the image's size. What the image did not have at some time
 * since the checkpoint counts as changed. `set` may be NULL. */
void
checkpoints_resized(struct checkpoints *set);

/* From now on, all counts as changed: what has happened to the image is not known. `set` may be
 * NULL. */
void
checkpoints_spoil(struct checkpoints *set);

/* ---- questions: any thread, at any time; none waits for a change, and only one for a backing */

/* Tells of the n-th checkpoint, from 0, oldest first. Returns false if there are fewer;
 * `set` may be NULL, which has none. */
bool
checkpoints_at(struct checkpoints *set, size_t n, struct checkpoint_facts *facts);

/* Returns the checkpoint with that id, which stays until checkpoint_release(), or NULL if it has
 * ended, or `set` is NULL. */
struct checkpoint *
checkpoint_hold(struct checkpoints *set, uint32_t id);
void
checkpoint_release(struct checkpoint *checkpoint);

/* Visits the runs of a range of the image, in order, and perhaps only those of its first part.
 * Returns 0, or what the visitor has returned;
 * -EIDRM: the checkpoint has ended; -ENODATA: what has changed since is unknown; or, of a backing
 * that keeps it, another -errno. With such an error, what was visited may be too little. Waits for
 * such a backing. */
int
checkpoint_visit(const struct checkpoint *checkpoint, uint64_t offset, uint64_t length,
		 change_visit visit, void *data);

/* Returns whether all checkpoints of the set are unknown, also those of a record that can't be
 * read, which are not in the list. Copies the reason, for "...: take a full backup". */
bool
checkpoints_problem(struct checkpoints *set, char reason[REASON_MAX]);

/* Returns the path of the record, or NULL. */
const char *
checkpoints_file(const struct checkpoints *set);

#endif
