/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Native checkpoints: those that the image's backing keeps by itself. A set of them follows the
 * backing's list, observes nothing, and asks the backing what has changed.
 */
#ifndef ENGINE_CHANGES_NATIVE_CHECKPOINT_H
#define ENGINE_CHANGES_NATIVE_CHECKPOINT_H

#include "engine/changes/checkpoint_facts.h"
#include "engine/changes/checkpoint_list.h"

/* How long the changes of all images of a moment wait while backings make such checkpoints, and how
 * long these may take to end, in milliseconds. In an idle cluster, Ceph takes a second for one. */
#define NATIVE_LIMIT_MS 10000

/* Changes are told in whole granules of this size, in bytes. */
#define NATIVE_GRANULE CHECKPOINT_GRANULE_MIN

/* The set's mutex is held. Has the set's list follow the backing's, if it has changed. Never waits,
 * also for a set that is not native, where nothing happens. */
void
native_follow(struct checkpoints *set);

/* Makes a checkpoint that can be begun by native_make(). Returns 0, or -errno with *error as
 * checkpoints_begin(). */
int
native_prepare(struct checkpoints *set, const char *name, uint64_t granule,
	       struct checkpoint **prepared, char **error);

/* Between freeze_begin() and freeze_end(): the backings make those in a list of prepared
 * checkpoints that are native, until a time of clock_ms(CLOCK_MONOTONIC). Returns as above. */
int
native_make(const struct checkpoint *prepared, int64_t end, char **error);

/* After native_make(): it stays, and the set finds it in the backing's list. Frees `prepared`. */
void
native_keep(struct checkpoint *prepared);

/* Returns whether another image of the same backing is open for writing, and the i-th one is not.
 */
bool
native_is_left_to_another(struct checkpoints *const sets[], size_t count, size_t i);

/* Ends all of that name that are native. Returns 0 or -errno with *error of the first failure;
 * without `error`, each is logged, and the backings are asked to end them in every case. */
int
native_end(struct checkpoints *const sets[], size_t count, const char *name, char **error);

/* As checkpoint_visit(). */
int
native_visit(const struct checkpoint *checkpoint, uint64_t offset, uint64_t length,
	     change_visit visit, void *data);

#endif
