/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/checkpoint.h"

#include "engine/backing/kind.h"
#include "engine/changes/checkpoints_state.h"
#include "engine/image/freeze.h"
#include "engine/image/image.h"
#include "engine/io/image_state.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <assert.h>
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

/* mutex held. */
static struct checkpoint **
find(struct checkpoints *set, const char *name)
{
	struct checkpoint **at = &set->first;

	while (*at && strcmp((*at)->facts.name, name) != 0)
		at = &(*at)->next;
	return at;
}

static int
check_room(struct checkpoints *set, const char *name, char **error)
{
	bool exists, full;

	pthread_mutex_lock(&set->mutex);
	exists = *find(set, name) != NULL;
	full = set->count == CHECKPOINTS_MAX;
	pthread_mutex_unlock(&set->mutex);
	if (exists)
		return error_set(error, -EEXIST, "there is a checkpoint %s already", name);
	if (full)
		return error_set(error, -ENOSPC,
				 "there are %d checkpoints already, which is the most; delete one",
				 CHECKPOINTS_MAX);
	return 0;
}

/* While this server has no lock of an image in Ceph, or has lost it, others may change the image.
 */
static int
check_possible(const struct image *image, char **error)
{
	if (!image->backing.kind->start)
		return 0;
	return error_set(error, -EOPNOTSUPP,
			 "%s: an image in Ceph has no checkpoints here, since other servers may "
			 "change it: rbd diff tells what has changed since a snapshot",
			 image->backing.path);
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

		if (!prepared->set->first) {
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
		struct checkpoint *checkpoint;

		r = check_possible(sets[i]->image, error);
		if (r == 0)
			r = check_room(sets[i], name, error);
		checkpoint = r == 0 ? prepare_one(sets[i], name, granule) : NULL;
		if (r == 0 && !checkpoint)
			r = -ENOMEM;
		if (r < 0)
			break;
		checkpoint->next = *prepared;
		*prepared = checkpoint;
		r = kept_prepare(sets[i], error);
		if (r == 0) {
			r = kept_make_room(checkpoint);
			if (r < 0)
				no_record(sets[i], r, error);
		}
		/* The most of it now, so that little is left after the moment. */
		if (r == 0)
			r = sync_image(sets[i], error);
	}
	if (r < 0) {
		checkpoints_discard(*prepared);
		*prepared = NULL;
	}
	return r;
}

void
checkpoints_begin_prepared(struct checkpoint *prepared)
{
	int64_t now = (int64_t)time(NULL);

	while (prepared) {
		struct checkpoint *next = prepared->next;
		struct checkpoints *set = prepared->set;

		prepared->facts.begun = prepared->entry.begun = now;
		if (!set->observed) {
			image_observe(set->image, &set->observer);
			set->observed = true;
			atomic_store(&set->kept, set->file != NULL);
		}
		checkpoint_append(prepared);
		prepared = next;
	}
}

/* Freezes the images of the sets. Returns 0 or -ENOMEM. */
static int
freeze_sets(struct freeze *freeze, struct checkpoints *const sets[], size_t count)
{
	struct image **CLEANUP_FREE images = calloc(count, sizeof(struct image *));

	if (!images)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		images[i] = sets[i]->image;
	return freeze_begin(freeze, images, count);
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

/* Ends a checkpoint, at *at in the list of its set. */
static void
end_one(struct checkpoints *set, struct checkpoint **at)
{
	struct checkpoint *checkpoint = *at;
	struct freeze freeze;

	atomic_store(&checkpoint->over, true);
	/* First, since it must not come back without what changes from now on. If that fails, the
	 * record is broken, and none comes back. */
	kept_save(set);
	freeze_begin(&freeze, &set->image, 1);
	pthread_mutex_lock(&set->mutex);
	*at = checkpoint->next;
	set->count--;
	pthread_mutex_unlock(&set->mutex);
	if (!set->first && set->observed)
		image_unobserve(set->image, &set->observer);
	set->observed = set->observed && set->first;
	freeze_end(&freeze);
	if (!set->first)
		kept_close(set);
	checkpoint_release(checkpoint);
}

int
checkpoints_save_begun(struct checkpoints *const sets[], size_t count, const char *name,
		       char **error)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = sync_image(sets[i], error);
	for (size_t i = 0; r == 0 && i < count; i++) {
		atomic_store(&(*find(sets[i], name))->unsaved, false);
		r = kept_save(sets[i]);
		if (r < 0)
			no_record(sets[i], r, error);
	}
	for (size_t i = 0; r < 0 && i < count; i++)
		end_one(sets[i], find(sets[i], name));
	return r;
}

int
checkpoints_begin(struct checkpoints *const sets[], size_t count, const char *name,
		  uint64_t granule, char **error)
{
	struct checkpoint *prepared;
	struct freeze freeze;
	int r = checkpoints_prepare(sets, count, name, granule, &prepared, error);

	if (r < 0)
		return r;
	r = freeze_sets(&freeze, sets, count);
	if (r == -ETIMEDOUT)
		error_set(error, r,
			  "a disk has not answered for some seconds, and all changes waited; try "
			  "again, or begin a checkpoint of each export");
	if (r < 0) {
		checkpoints_discard(prepared);
		return r;
	}
	checkpoints_begin_prepared(prepared);
	freeze_end(&freeze);
	return checkpoints_save_begun(sets, count, name, error);
}

/* ---- copies */

/* Adds room for a copy of a checkpoint. Returns 0 or -ENOMEM. */
static int
add_copy(struct checkpoints *copy, const struct checkpoint *of)
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

	for (const struct checkpoint *of = set->first; r == 0 && of; of = of->next)
		r = add_copy(copy, of);
	while (prepared && prepared->set != set)
		prepared = prepared->next;
	if (r == 0 && prepared)
		r = add_copy(copy, prepared);
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
			checkpoints_set_problem(copy, reason);
		to->of = NULL;
	}
}

/* ---- ending */

int
checkpoints_end(struct checkpoints *const sets[], size_t count, const char *name, char **error)
{
	*error = NULL;
	for (size_t i = 0; i < count; i++) {
		if (!*find(sets[i], name))
			return error_set(error, -ENOENT, "there is no checkpoint %s", name);
	}
	/* One after the other: this needs no common moment. */
	for (size_t i = 0; i < count; i++)
		end_one(sets[i], find(sets[i], name));
	return 0;
}

/* ---- questions */

bool
checkpoints_at(struct checkpoints *set, size_t n, struct checkpoint_facts *facts)
{
	const struct checkpoint *checkpoint;

	if (!set)
		return false;
	pthread_mutex_lock(&set->mutex);
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
	for (checkpoint = set->first; checkpoint && checkpoint->facts.id != id;
	     checkpoint = checkpoint->next)
		;
	if (checkpoint)
		checkpoint->users++;
	pthread_mutex_unlock(&set->mutex);
	return checkpoint;
}

bool
checkpoint_run(const struct checkpoint *checkpoint, uint64_t start, uint64_t limit, uint64_t *end)
{
	return bitmap_run(checkpoint->bitmap, start, limit, end);
}

bool
checkpoint_has_ended(const struct checkpoint *checkpoint)
{
	return atomic_load(&checkpoint->over);
}

bool
checkpoint_is_unknown(const struct checkpoint *checkpoint)
{
	return atomic_load(&checkpoint->set->unknown);
}
