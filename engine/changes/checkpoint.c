/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The set of an image's checkpoints from its making to its end, and how checkpoints begin and end.
 *
 * A checkpoint begins in three steps: checkpoints_prepare() does all that may fail; at the moment,
 * in which no change is in flight, it is put into the list; checkpoints_save_begun() makes the
 * image durable, and only then writes the checkpoint into the record. One that ends leaves the
 * record first, then the list.
 */
#include "engine/changes/checkpoint.h"

#include "engine/changes/checkpoint_list.h"
#include "engine/changes/native_checkpoint.h"
#include "engine/changes/record_keeper.h"
#include "engine/changes/record_recovery.h"
#include "engine/changes/recorder.h"
#include "engine/image/freeze.h"
#include "engine/image/image.h"
#include "engine/io/image_state.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/container_of.h"
#include "common/error.h"
#include "common/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a change does to the set */

/* Marks a change, or has it recorded first if it is new to some checkpoint. */
static bool
checkpoints_note(struct observer *observer, struct range *range)
{
	struct checkpoints *set = container_of(observer, struct checkpoints, observer);
	bool kept = atomic_load_explicit(&set->kept, memory_order_relaxed);
	uint64_t start, end;

	/* Also a change before the image: it changes the times of the file. */
	if (kept && atomic_load_explicit(&set->quiet, memory_order_relaxed)) {
		recorder_give(set, range);
		return false;
	}
	if (!checkpoint_list_part(set, range, &start, &end))
		return true;
	for (struct checkpoint *one = set->first; one; one = one->next) {
		if (!kept) {
			bitmap_mark(one->bitmap, start, end);
		} else if (!bitmap_has(one->bitmap, start, end)) {
			recorder_give(set, range);
			return false;
		}
	}
	return true;
}

static void
checkpoints_limit(struct checkpoints *set, uint64_t bytes)
{
	for (struct checkpoint *one = set->first; one; one = one->next)
		bitmap_limit(one->bitmap, bytes);
}

/* Another image of the file was made smaller: what this one has beyond the end has changed, also if
 * the file has grown again when somebody looks. */
static void
checkpoints_note_end(struct observer *observer, uint64_t end)
{
	struct checkpoints *set = container_of(observer, struct checkpoints, observer);

	checkpoints_limit(set, end > set->start ? end - set->start : 0);
}

void
checkpoints_resized(struct checkpoints *set)
{
	if (set && set->image && !set->kind && set->first) {
		checkpoints_limit(set, image_size(set->image));
		keeper_save(set);
	}
}

void
checkpoints_spoil(struct checkpoints *set)
{
	if (set && set->image && !set->kind && set->first) {
		checkpoints_limit(set, 0);
		keeper_save(set);
	}
}

/* ---- the set */

struct checkpoints *
checkpoints_new(struct image *image)
{
	struct checkpoints *set = calloc(1, sizeof(*set));

	if (!set)
		return NULL;
	set->image = image;
	set->start = image ? image_start(image) : 0;
	set->kind = image ? image->backing.kind->checkpoints : NULL;
	set->observer.change = checkpoints_note;
	set->observer.truncated = checkpoints_note_end;
	set->record.fd = -1;
	pthread_mutex_init(&set->mutex, NULL);
	pthread_mutex_init(&set->recording, NULL);
	pthread_mutex_init(&set->queueing, NULL);
	thread_condition_init(&set->work);
	return set;
}

int
checkpoints_keep(struct checkpoints *set, const char *file, uid_t owner)
{
	set->file = strdup(file);
	set->owner = owner;
	return set->file ? recovery_open(set) : -ENOMEM;
}

/* Ends the recorder and closes the record, if there is one. */
static void
checkpoints_close(struct checkpoints *set)
{
	recorder_stop(set);
	keeper_close(set);
}

void
checkpoints_free(struct checkpoints *set)
{
	struct freeze freeze;

	if (!set)
		return;
	if (set->observed) {
		/* Some file systems set a file's times when they write back. */
		set->last_result = atomic_load(&set->kept) ? image_sync(set->image) : 0;
		freeze_begin(&freeze, &set->image, 1);
		observer_remove(set->image->ranges, &set->observer);
		/* From now on, other images of the file may change it. */
		if (atomic_load(&set->kept) && set->last_result == 0)
			set->last_result = keeper_see_image(set, &set->last);
		freeze_end(&freeze);
	}
	checkpoints_close(set);
	checkpoint_list_empty(set);
	pthread_cond_destroy(&set->work);
	pthread_mutex_destroy(&set->queueing);
	pthread_mutex_destroy(&set->recording);
	pthread_mutex_destroy(&set->mutex);
	free(set->file);
	free(set);
}

/* ---- beginning */

static int
checkpoints_check_room(struct checkpoints *set, const char *name, char **error)
{
	bool taken, full;

	pthread_mutex_lock(&set->mutex);
	native_follow(set);
	taken = *checkpoint_list_find(set, name) != NULL;
	full = set->count == CHECKPOINTS_MAX;
	pthread_mutex_unlock(&set->mutex);
	if (taken)
		return error_set(error, -EEXIST, "there is a checkpoint %s already", name);
	if (full)
		return error_set(error, -ENOSPC,
				 "there are %d checkpoints already, the maximum: delete one",
				 CHECKPOINTS_MAX);
	return 0;
}

/* A record that was made for a checkpoint that has not begun goes away again. */
void
checkpoints_discard(struct checkpoint *prepared)
{
	while (prepared) {
		struct checkpoint *next = prepared->next;

		if (!prepared->set->kind && !prepared->set->first) {
			keeper_save(prepared->set);
			checkpoints_close(prepared->set);
		}
		checkpoint_free(prepared);
		prepared = next;
	}
}

static int
checkpoints_fail_record(struct checkpoints *set, int r, char **error)
{
	return error_set(error, r, "%s: %s", set->file, strerror(-r));
}

/* Makes the image durable: what was acknowledged before a checkpoint is no change since, so it must
 * not vanish from the image after it. */
static int
checkpoints_sync(struct checkpoints *set, char **error)
{
	int r = image_sync(set->image);

	return r == 0 ? 0
		      : error_set(
				error, r,
				"%s: no checkpoint, because earlier writes could not be flushed: %s",
				set->image->backing.path, strerror(-r));
}

/* Prepares one that has a bitmap. */
static int
checkpoints_prepare_noted(struct checkpoints *set, const char *name, uint64_t granule,
			  struct checkpoint **prepared, char **error)
{
	const uint64_t size = image_size(set->image);
	struct record_entry entry = {
		.granule = granule,
		.granules = size / granule + (size % granule != 0),
		.covered = size,
	};
	int r;

	if (image_others_may_write(set->image))
		return error_set(error, -EBUSY,
				 "%s: no checkpoints with lock=shared or off: another server may "
				 "change the image, and its changes would not be noted; "
				 "lock=exclusive keeps it out",
				 set->image->backing.path);
	memcpy(entry.name, name, strlen(name) + 1);
	*prepared = checkpoint_new(set, &entry, set->file != NULL);
	if (!*prepared)
		return -ENOMEM;
	/* From now on, checkpoints_discard() undoes it. */
	atomic_store(&(*prepared)->unsaved, true);
	r = keeper_prepare(set, error);
	if (r == 0 && set->file)
		r = recorder_start(set);
	if (r == 0) {
		r = keeper_make_room(*prepared);
		if (r < 0)
			checkpoints_fail_record(set, r, error);
	}
	/* The most of it now, so that little is left after the moment. */
	return r == 0 ? checkpoints_sync(set, error) : r;
}

/* Returns whether the backing of a set's image keeps one that is prepared for another image. */
static bool
checkpoints_is_prepared(const struct checkpoints *set, const struct checkpoint *prepared)
{
	while (prepared && !(set->kind && image_same(prepared->set->image, set->image)))
		prepared = prepared->next;
	return prepared;
}

int
checkpoints_prepare(struct checkpoints *const sets[], size_t count, const char *name,
		    uint64_t granule, struct checkpoint **prepared, char **error)
{
	int r = 0;

	*error = NULL;
	*prepared = NULL;
	if (!checkpoint_name_is_valid(name))
		return error_set(error, -EINVAL,
				 "the name of a checkpoint has 1 to %d letters, digits and "
				 "characters of \"+-.:_\"",
				 CHECKPOINT_NAME_MAX);
	if (granule < CHECKPOINT_GRANULE_MIN || granule > CHECKPOINT_GRANULE_MAX ||
	    (granule & (granule - 1)))
		return error_set(
			error, -EINVAL,
			"the granularity of a checkpoint is a power of 2 from 4 KiB to 1 MiB");
	for (size_t i = 0; r == 0 && i < count; i++) {
		struct checkpoint *one = NULL;

		if (checkpoints_is_prepared(sets[i], *prepared) ||
		    (sets[i]->kind && native_is_left_to_another(sets, count, i)))
			continue;
		r = checkpoints_check_room(sets[i], name, error);
		if (r == 0)
			r = sets[i]->kind ? native_prepare(sets[i], name, granule, &one, error)
					  : checkpoints_prepare_noted(sets[i], name, granule, &one,
								      error);
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

void
checkpoints_begin_prepared(struct checkpoint *prepared)
{
	const int64_t now = (int64_t)time(NULL);

	while (prepared) {
		struct checkpoint *next = prepared->next;
		struct checkpoints *set = prepared->set;

		if (set->kind) {
			native_keep(prepared);
		} else {
			prepared->facts.begun = prepared->entry.begun = now;
			if (!set->observed) {
				observer_add(set->image->ranges, &set->observer);
				set->observed = true;
				atomic_store(&set->kept, set->file != NULL);
			}
			checkpoint_append(prepared);
		}
		prepared = next;
	}
}

int
checkpoints_save_begun(struct checkpoints *const sets[], size_t count, const char *name,
		       char **error)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		if (!sets[i]->kind)
			r = checkpoints_sync(sets[i], error);
	for (size_t i = 0; r == 0 && i < count; i++) {
		if (sets[i]->kind)
			continue;
		atomic_store(&(*checkpoint_list_find(sets[i], name))->unsaved, false);
		r = keeper_save(sets[i]);
		if (r < 0)
			checkpoints_fail_record(sets[i], r, error);
	}
	if (r < 0)
		checkpoints_undo(sets, count, name);
	return r;
}

/* Begins at one moment what is prepared. */
static int
checkpoints_pass_moment(struct checkpoints *const sets[], size_t count, struct checkpoint *prepared,
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
		r = checkpoints_pass_moment(sets, count, prepared, error);
	return r < 0 ? r : checkpoints_save_begun(sets, count, name, error);
}

/* ---- ending */

/* Ends a checkpoint, at *at in the list of its set. */
static void
checkpoints_end_noted(struct checkpoints *set, struct checkpoint **at)
{
	struct checkpoint *checkpoint = *at;
	struct freeze freeze;

	atomic_store(&checkpoint->over, true);
	/* First, since it must not come back without what changes from now on. If that fails, the
	 * record is broken, and none comes back. */
	keeper_save(set);
	freeze_begin(&freeze, &set->image, 1);
	pthread_mutex_lock(&set->mutex);
	*at = checkpoint->next;
	set->count--;
	pthread_mutex_unlock(&set->mutex);
	if (!set->first && set->observed)
		observer_remove(set->image->ranges, &set->observer);
	set->observed = set->observed && set->first;
	freeze_end(&freeze);
	if (!set->first)
		checkpoints_close(set);
	checkpoint_release(checkpoint);
}

static void
checkpoints_end_all(struct checkpoints *const sets[], size_t count, const char *name)
{
	/* One after the other: this needs no common moment. */
	for (size_t i = 0; i < count; i++) {
		struct checkpoint **at = sets[i]->kind ? NULL : checkpoint_list_find(sets[i], name);

		if (at && *at)
			checkpoints_end_noted(sets[i], at);
	}
}

void
checkpoints_undo(struct checkpoints *const sets[], size_t count, const char *name)
{
	native_end(sets, count, name, NULL);
	checkpoints_end_all(sets, count, name);
}

int
checkpoints_end(struct checkpoints *const sets[], size_t count, const char *name, char **error)
{
	bool found = false, missing = false;
	int r;

	*error = NULL;
	for (size_t i = 0; i < count; i++) {
		bool has;

		pthread_mutex_lock(&sets[i]->mutex);
		native_follow(sets[i]);
		has = *checkpoint_list_find(sets[i], name) != NULL;
		pthread_mutex_unlock(&sets[i]->mutex);
		/* Another process, or a call that failed for another image, may have ended it. */
		missing = missing || !(has || sets[i]->kind);
		found = found ||
			(has && !(sets[i]->kind && native_is_left_to_another(sets, count, i)));
	}
	if (!found || missing)
		return error_set(error, -ENOENT, "there is no checkpoint %s", name);
	/* First what may fail, so that it can be tried again. */
	r = native_end(sets, count, name, error);
	if (r == 0)
		checkpoints_end_all(sets, count, name);
	return r;
}

/* ---- those of a snapshot */

/* Adds room for a copy of a checkpoint. Returns 0 or -ENOMEM. */
static int
checkpoints_add_copy(struct checkpoints *copy, const struct checkpoint *of)
{
	struct record_entry entry = of->entry;
	struct checkpoint *checkpoint;

	/* One of a record that was refused has fewer than the record says: none. */
	entry.granules = bitmap_granules(of->bitmap);
	entry.covered = bitmap_covered(of->bitmap);
	checkpoint = checkpoint_new(copy, &entry, false);
	if (!checkpoint)
		return -ENOMEM;
	checkpoint->of = of;
	checkpoint_append(checkpoint);
	return 0;
}

struct checkpoints *
checkpoints_prepare_copy(const struct checkpoints *set, const struct checkpoint *prepared)
{
	struct checkpoints *copy = checkpoints_new(NULL);
	int r = copy ? 0 : -ENOMEM;

	if (copy)
		copy->kind = set->kind;
	if (set->kind)
		return copy;
	for (const struct checkpoint *of = set->first; r == 0 && of; of = of->next)
		r = checkpoints_add_copy(copy, of);
	while (prepared && prepared->set != set)
		prepared = prepared->next;
	if (r == 0 && prepared)
		r = checkpoints_add_copy(copy, prepared);
	if (r == 0)
		return copy;
	checkpoints_free(copy);
	return NULL;
}

void
checkpoints_copy(struct checkpoints *copy)
{
	char reason[REASON_MAX];

	for (struct checkpoint *to = copy->first; to; to = to->next) {
		to->facts.begun = to->of->facts.begun;
		bitmap_copy(to->bitmap, to->of->bitmap);
		if (checkpoints_problem(to->of->set, reason))
			checkpoint_list_set_unknown(copy, reason);
		to->of = NULL;
	}
}

void
checkpoints_of_snapshot(struct checkpoints *copy, struct image *snapshot)
{
	if (!copy->kind)
		return;
	copy->image = snapshot;
	copy->start = image_start(snapshot);
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

bool
checkpoints_problem(struct checkpoints *set, char reason[REASON_MAX])
{
	if (!set || !atomic_load(&set->unknown))
		return false;
	pthread_mutex_lock(&set->mutex);
	memcpy(reason, set->problem, REASON_MAX);
	pthread_mutex_unlock(&set->mutex);
	return true;
}

const char *
checkpoints_file(const struct checkpoints *set)
{
	return set ? set->file : NULL;
}
