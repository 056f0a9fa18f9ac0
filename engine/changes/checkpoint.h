/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints of an image: from a moment on, each notes which granules of the image are changed. A
 * granule may be noted although its bytes are the same; one that has changed is never missing.
 *
 * They are in memory: they end with the process, or earlier with the image.
 */
#ifndef ENGINE_CHANGES_CHECKPOINT_H
#define ENGINE_CHANGES_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct checkpoint;
struct image;

/* Longest name, in bytes; names have letters, digits and "+-.:_". */
#define CHECKPOINT_NAME_MAX 128

/* The most checkpoints that an image has at once. */
#define CHECKPOINTS_MAX 32

/* Bytes of a granule: a power of 2. */
#define CHECKPOINT_GRANULE     UINT64_C(65536) /* the usual one */
#define CHECKPOINT_GRANULE_MIN UINT64_C(4096)
#define CHECKPOINT_GRANULE_MAX UINT64_C(1048576)

/* The checkpoints of one image. */
struct checkpoints;

/* Makes an empty set, or returns NULL if there is no memory. The image must outlive it. Only this
 * kind of set changes; for the other one see checkpoints_prepare_copy(). */
struct checkpoints *
checkpoints_new(struct image *image);

/* Ends all checkpoints, and frees the set. None may be held. Waits for the changes in flight of the
 * image's file. NULL is allowed. */
void
checkpoints_free(struct checkpoints *set);

/* ---- changes: one at a time */

/*
 * Begins a checkpoint of that name in each of `count` sets, which differ, at one moment in the
 * order of all changes (engine/image/freeze.h). `granule`: in bytes. Waits for the changes in
 * flight. Returns 0, or -errno with *error, a sentence (the caller frees it; NULL: no memory); then
 * there is none in any set.
 */
int
checkpoints_begin(struct checkpoints *const sets[], size_t count, const char *name,
		  uint64_t granule, char **error);

/* Ends the checkpoint of that name in each of `count` sets. Waits for the changes in flight.
 * Returns 0, or -errno with *error, as above; then none has ended. */
int
checkpoints_end(struct checkpoints *const sets[], size_t count, const char *name, char **error);

/*
 * checkpoints_begin() in two parts, for a moment that the caller makes. The first part does all
 * that can fail, and returns as checkpoints_begin() does, with *prepared; the second one, between
 * freeze_begin() and freeze_end() for the images of all sets, begins. checkpoints_discard() undoes
 * the first one. NULL is prepared to begin nothing.
 */
int
checkpoints_prepare(struct checkpoints *const sets[], size_t count, const char *name,
		    uint64_t granule, struct checkpoint **prepared, char **error);
void
checkpoints_begin_prepared(struct checkpoint *prepared);
void
checkpoints_discard(struct checkpoint *prepared);

/*
 * Makes a set that is to have what the checkpoints of `set`, with a prepared one (or NULL), know at
 * a moment. It never changes, and has no image. NULL: no memory. The caller frees it with
 * checkpoints_free(). Before any other change of `set`, checkpoints_copy() fills it, at a moment in
 * which no change of the image is in flight.
 */
struct checkpoints *
checkpoints_prepare_copy(const struct checkpoints *set, const struct checkpoint *prepared);
void
checkpoints_copy(struct checkpoints *copy);

/* To be called after each change of the image's size. What the image did not have at some time
 * since the checkpoint counts as changed. `set` may be NULL. */
void
checkpoints_resized(struct checkpoints *set);

/* From now on, all counts as changed: what has happened to the image is not known. `set` may be
 * NULL. */
void
checkpoints_spoil(struct checkpoints *set);

/* ---- questions: any thread, at any time; none waits for a change */

struct checkpoint_facts {
	uint32_t id; /* never 0 or 1, and of no other checkpoint in this process */
	char name[CHECKPOINT_NAME_MAX + 1];
	uint64_t granule; /* in bytes */
	int64_t begun;    /* seconds since 1970 */
};

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

/* Returns whether the byte at `start` of the image has changed since, and sets *end, at most
 * `limit` (> start), to the end of the run. */
bool
checkpoint_run(const struct checkpoint *checkpoint, uint64_t start, uint64_t limit, uint64_t *end);

/* Returns whether it has ended. Then what checkpoint_run() returned before this call may be too
 * little. */
bool
checkpoint_has_ended(const struct checkpoint *checkpoint);

#endif
