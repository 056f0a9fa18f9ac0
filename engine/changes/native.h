/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Native checkpoints: those that the image's backing keeps by itself. A set of them follows the
 * backing's list, observes nothing, and asks the backing what has changed.
 */
#ifndef ENGINE_CHANGES_NATIVE_H
#define ENGINE_CHANGES_NATIVE_H

#include "engine/changes/checkpoint_facts.h"
#include "engine/changes/checkpoints_state.h"

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

/* After native_make(): it stays. */
void
native_keep(struct checkpoint *prepared);

/* Tells of the checkpoint of that name; false: there is none. Never waits. */
bool
native_find(struct checkpoints *set, const char *name, struct backing_checkpoint *facts);

/* As remove() and await_removal() of struct backing_checkpoints. */
int
native_end(struct checkpoints *set, uint64_t id, bool anyway, struct backing_removal **removal,
	   char **error);
int
native_await_end(const struct checkpoints *set, struct backing_removal *removal, int64_t end,
		 char **error);

/* As checkpoint_visit(). */
int
native_visit(const struct checkpoint *checkpoint, uint64_t offset, uint64_t length,
	     change_visit visit, void *data);

#endif
