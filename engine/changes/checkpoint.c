/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/checkpoint.h"

#include "engine/changes/checkpoints_state.h"
#include "engine/changes/native.h"
#include "engine/image/freeze.h"
#include "engine/image/image.h"
#include "engine/io/image_state.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- beginning */

static int
check_name(const char *name, char **error)
{
	if (checkpoint_name_is_valid(name))
		return 0;
	return error_set(error, -EINVAL,
			 "the name of a checkpoint has 1 to %d letters, digits and characters of "
			 "\"+-.:_\"",
			 CHECKPOINT_NAME_MAX);
}

static int
check_granule(uint64_t granule, char **error)
{
	if (granule >= CHECKPOINT_GRANULE_MIN && granule <= CHECKPOINT_GRANULE_MAX &&
	    !(granule & (granule - 1)))
		return 0;
	return error_set(error, -EINVAL,
			 "the granularity of a checkpoint is a power of 2 from 4 KiB to 1 MiB");
}

static int
check_room(struct checkpoints *set, const char *name, char **error)
{
	bool taken, full;

	pthread_mutex_lock(&set->mutex);
	taken = *checkpoints_find(set, name) != NULL;
	full = set->count == CHECKPOINTS_MAX;
	pthread_mutex_unlock(&set->mutex);
	if (taken)
		return error_set(error, -EEXIST, "there is a checkpoint %s already", name);
	if (full)
		return error_set(error, -ENOSPC,
				 "there are %d checkpoints already, which is the most; delete one",
				 CHECKPOINTS_MAX);
	return 0;
}

static struct checkpoint *
prepare_one(struct checkpoints *set, const char *name, uint64_t granule)
{
	uint64_t size = image_size(set->image);
	struct record_entry entry = {
		.granule = granule,
		.granules = size / granule + (size % granule != 0),
		.covered = size,
	};
	struct checkpoint *checkpoint;

	memcpy(entry.name, name, strlen(name) + 1);
	checkpoint = checkpoint_new(set, &entry, set->file != NULL);
	if (checkpoint)
		atomic_store(&checkpoint->unsaved, true);
	return checkpoint;
}

/* A record that was made for a checkpoint that has not begun goes away again. */
void
checkpoints_discard(struct checkpoint *prepared)
{
	while (prepared) {
		struct checkpoint *next = prepared->next;

		if (!prepared->set->kind && !prepared->set->first) {
			kept_save(prepared->set);
			kept_close(prepared->set);
		}
		checkpoint_free(prepared);
		prepared = next;
	}
}

static int
no_record(struct checkpoints *set, int r, char **error)
{
	return error_set(error, r, "%s: %s", set->file, strerror(-r));
}

/* Makes the image durable: what was acknowledged before a checkpoint is no change since, so it must
 * not vanish from the image after it. */
static int
sync_image(struct checkpoints *set, char **error)
{
	int r = image_sync(set->image);

	return r == 0 ? 0
		      : error_set(error, r,
				  "%s: what was written before the checkpoint may be lost: %s",
				  set->image->backing.path, strerror(-r));
}

static int
check_lock(const struct checkpoints *set, char **error)
{
	if (!image_others_may_write(set->image))
		return 0;
	return error_set(error, -EBUSY,
			 "%s: no checkpoints with lock=shared or off: another server may change "
			 "the image, and its changes would not be noted; lock=exclusive keeps it "
			 "out",
			 set->image->backing.path);
}

/* Prepares one that has a bitmap. */
static int
prepare_noted(struct checkpoints *set, const char *name, uint64_t granule,
	      struct checkpoint **prepared, char **error)
{
	struct checkpoint *checkpoint;
	int r = check_lock(set, error);

	if (r < 0)
		return r;
	checkpoint = prepare_one(set, name, granule);
	if (!checkpoint)
		return -ENOMEM;
	/* From now on, checkpoints_discard() undoes it. */
	*prepared = checkpoint;
	r = kept_prepare(set, error);
	if (r == 0) {
		r = kept_make_room(checkpoint);
		if (r < 0)
			no_record(set, r, error);
	}
	/* The most of it now, so that little is left after the moment. */
	return r == 0 ? sync_image(set, error) : r;
}

/* Whether the backing of a set's image keeps one that is prepared for another image. */
static bool
is_prepared(const struct checkpoints *set, const struct checkpoint *prepared)
{
	while (prepared && !(set->kind && image_same(prepared->set->image, set->image)))
		prepared = prepared->next;
	return prepared;
}

int
checkpoints_prepare(struct checkpoints *const sets[], size_t count, const char *name,
		    uint64_t granule, struct checkpoint **prepared, char **error)
{
	int r;

	*error = NULL;
	*prepared = NULL;
	r = check_name(name, error);
	if (r == 0)
		r = check_granule(granule, error);
	for (size_t i = 0; r == 0 && i < count; i++) {
		struct checkpoint *one = NULL;

		if (is_prepared(sets[i], *prepared) ||
		    (sets[i]->kind && checkpoints_is_left_to_another(sets, count, i)))
			continue;
		r = check_room(sets[i], name, error);
		if (r == 0)
			r = sets[i]->kind ? native_prepare(sets[i], name, granule, &one, error)
					  : prepare_noted(sets[i], name, granule, &one, error);
		if (one) {
			one->next = *prepared;
			*prepared = one;
		}
	}
	if (r < 0) {
		checkpoints_discard(*prepared);
		*prepared = NULL;
	}
	return r;
}

int
checkpoints_make_prepared(const struct checkpoint *prepared, int64_t end, char **error)
{
	return native_make(prepared, end, error);
}

static void
begin_noted(struct checkpoint *checkpoint, int64_t now)
{
	struct checkpoints *set = checkpoint->set;

	checkpoint->facts.begun = checkpoint->entry.begun = now;
	if (!set->observed) {
		image_observe(set->image, &set->observer);
		set->observed = true;
		atomic_store(&set->kept, set->file != NULL);
	}
	checkpoint_append(checkpoint);
}

/* The set finds it in the backing's list. */
static void
begin_native(struct checkpoint *prepared)
{
	native_keep(prepared);
	checkpoint_free(prepared);
}

void
checkpoints_begin_prepared(struct checkpoint *prepared)
{
	int64_t now = (int64_t)time(NULL);

	while (prepared) {
		struct checkpoint *next = prepared->next;

		if (prepared->set->kind)
			begin_native(prepared);
		else
			begin_noted(prepared, now);
		prepared = next;
	}
}

void
checkpoint_release(struct checkpoint *checkpoint)
{
	struct checkpoints *set = checkpoint->set;
	bool last;

	pthread_mutex_lock(&set->mutex);
	last = --checkpoint->users == 0;
	pthread_mutex_unlock(&set->mutex);
	if (last)
		checkpoint_free(checkpoint);
}

int
checkpoints_save_begun(struct checkpoints *const sets[], size_t count, const char *name,
		       char **error)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		if (!sets[i]->kind)
			r = sync_image(sets[i], error);
	for (size_t i = 0; r == 0 && i < count; i++) {
		if (sets[i]->kind)
			continue;
		atomic_store(&(*checkpoints_find(sets[i], name))->unsaved, false);
		r = kept_save(sets[i]);
		if (r < 0)
			no_record(sets[i], r, error);
	}
	if (r < 0)
		checkpoints_undo(sets, count, name);
	return r;
}

/* Begins at one moment what is prepared. */
static int
pass_moment(struct checkpoints *const sets[], size_t count, struct checkpoint *prepared,
	    char **error)
{
	struct image **CLEANUP_FREE images = calloc(count, sizeof(struct image *));
	const int64_t end = clock_ms(CLOCK_MONOTONIC) + NATIVE_LIMIT_MS;
	struct freeze freeze;
	bool native = false;
	int r = images ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < count; i++) {
		images[i] = sets[i]->image;
		native = native || sets[i]->kind;
	}
	if (r == 0)
		r = native ? freeze_begin_in_time(&freeze, images, count)
			   : freeze_begin(&freeze, images, count);
	if (r == -ETIMEDOUT)
		error_set(error, r,
			  "a disk or cluster has not answered for some seconds, and all changes "
			  "waited; try again%s",
			  count > 1 ? ", or begin a checkpoint of each export" : "");
	if (r == 0) {
		r = native_make(prepared, end, error);
		if (r == 0)
			checkpoints_begin_prepared(prepared);
		freeze_end(&freeze);
	}
	if (r < 0)
		checkpoints_discard(prepared);
	return r;
}

int
checkpoints_begin(struct checkpoints *const sets[], size_t count, const char *name,
		  uint64_t granule, char **error)
{
	struct checkpoint *prepared;
	int r = checkpoints_prepare(sets, count, name, granule, &prepared, error);

	if (r == 0)
		r = pass_moment(sets, count, prepared, error);
	return r < 0 ? r : checkpoints_save_begun(sets, count, name, error);
}

/* ---- questions */

bool
checkpoints_at(struct checkpoints *set, size_t n, struct checkpoint_facts *facts)
{
	const struct checkpoint *checkpoint;

	if (!set)
		return false;
	pthread_mutex_lock(&set->mutex);
	native_follow(set);
	for (checkpoint = set->first; checkpoint && n > 0; checkpoint = checkpoint->next)
		n--;
	if (checkpoint) {
		*facts = checkpoint->facts;
		facts->unknown = atomic_load(&set->unknown);
	}
	pthread_mutex_unlock(&set->mutex);
	return checkpoint != NULL;
}

struct checkpoint *
checkpoint_hold(struct checkpoints *set, uint32_t id)
{
	struct checkpoint *checkpoint;

	if (!set)
		return NULL;
	pthread_mutex_lock(&set->mutex);
	native_follow(set);
	for (checkpoint = set->first; checkpoint && checkpoint->facts.id != id;
	     checkpoint = checkpoint->next)
		;
	if (checkpoint)
		checkpoint->users++;
	pthread_mutex_unlock(&set->mutex);
	return checkpoint;
}

int
checkpoint_visit(const struct checkpoint *checkpoint, uint64_t offset, uint64_t length,
		 change_visit visit, void *data)
{
	const uint64_t end = offset + length;
	uint64_t next;
	int r = 0;

	if (checkpoint->set->kind)
		return native_visit(checkpoint, offset, length, visit, data);
	for (; r == 0 && offset < end; offset = next) {
		bool changed = bitmap_run(checkpoint->bitmap, offset, end, &next);

		r = visit(data, offset, next - offset, changed);
	}
	/* Only now: what was told before one of these may be too little. */
	if (atomic_load(&checkpoint->over))
		return -EIDRM;
	return atomic_load(&checkpoint->set->unknown) ? -ENODATA : r;
}
