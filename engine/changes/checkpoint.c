/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/checkpoint.h"

#include "engine/changes/bitmap.h"
#include "engine/backing/kind.h"
#include "engine/image/freeze.h"
#include "engine/image/image.h"
#include "engine/io/image_state.h"
#include "engine/io/observer.h"
#include "engine/io/range.h"

#include "common/cleanup.h"
#include "common/container_of.h"
#include "common/error.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct checkpoint {
	struct observer observer;
	struct checkpoints *set;
	struct checkpoint_facts facts;
	struct bitmap *bitmap;
	const struct checkpoint *of; /* of a copy, until it is filled: what it is to be a copy of */
	uint64_t start;              /* of the image in its file, in bytes */
	_Atomic bool over;           /* set before the observer is removed */
	unsigned int users; /* the set's list, and those that hold it; guarded by the set's mutex */
	struct checkpoint *next;
};

struct checkpoints {
	struct image *image;      /* NULL: it is a copy */
	pthread_mutex_t mutex;    /* guards the members below; held only for moments */
	struct checkpoint *first; /* oldest first */
	size_t count;
};

static _Atomic uint32_t last_id = 1;

struct checkpoints *
checkpoints_new(struct image *image)
{
	struct checkpoints *set = calloc(1, sizeof(*set));

	if (!set)
		return NULL;
	set->image = image;
	pthread_mutex_init(&set->mutex, NULL);
	return set;
}

static void
checkpoint_free(struct checkpoint *checkpoint)
{
	free(checkpoint->bitmap);
	free(checkpoint);
}

/* ---- beginning */

/* The ranges of other images of the same file may lie before this image, or after it. */
static bool
note_change(struct observer *observer, struct range *range)
{
	struct checkpoint *checkpoint = container_of(observer, struct checkpoint, observer);
	uint64_t start = checkpoint->start;

	if (range->end > start)
		bitmap_mark(checkpoint->bitmap, range->start > start ? range->start - start : 0,
			    range->end - start);
	return true;
}

static int
check_name(const char *name, char **error)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789+-.:_";
	size_t length = strlen(name);

	if (length > 0 && length <= CHECKPOINT_NAME_MAX && strspn(name, allowed) == length)
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
checkpoint_new(struct checkpoints *set, const char *name, uint64_t granule)
{
	struct checkpoint *checkpoint = calloc(1, sizeof(*checkpoint));

	if (!checkpoint)
		return NULL;
	checkpoint->bitmap = bitmap_new(image_size(set->image), granule);
	if (!checkpoint->bitmap) {
		free(checkpoint);
		return NULL;
	}
	checkpoint->observer.change = note_change;
	checkpoint->set = set;
	checkpoint->start = image_start(set->image);
	checkpoint->users = 1;
	checkpoint->facts.granule = granule;
	checkpoint->facts.id = atomic_fetch_add(&last_id, 1) + 1;
	memcpy(checkpoint->facts.name, name, strlen(name));
	return checkpoint;
}

void
checkpoints_discard(struct checkpoint *prepared)
{
	while (prepared) {
		struct checkpoint *next = prepared->next;

		checkpoint_free(prepared);
		prepared = next;
	}
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
		checkpoint = r == 0 ? checkpoint_new(sets[i], name, granule) : NULL;
		if (r == 0 && !checkpoint)
			r = -ENOMEM;
		if (r < 0)
			break;
		checkpoint->next = *prepared;
		*prepared = checkpoint;
	}
	if (r < 0) {
		checkpoints_discard(*prepared);
		*prepared = NULL;
	}
	return r;
}

static void
append(struct checkpoint *checkpoint)
{
	struct checkpoints *set = checkpoint->set;
	struct checkpoint **at = &set->first;

	checkpoint->next = NULL;
	pthread_mutex_lock(&set->mutex);
	while (*at)
		at = &(*at)->next;
	*at = checkpoint;
	set->count++;
	pthread_mutex_unlock(&set->mutex);
}

void
checkpoints_begin_prepared(struct checkpoint *prepared)
{
	int64_t now = (int64_t)time(NULL);

	while (prepared) {
		struct checkpoint *next = prepared->next;

		prepared->facts.begun = now;
		image_observe(prepared->set->image, &prepared->observer);
		append(prepared);
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
	return 0;
}

/* ---- copies */

/* Adds room for a copy of a checkpoint. Returns 0 or -ENOMEM. */
static int
add_copy(struct checkpoints *copy, const struct checkpoint *of)
{
	struct checkpoint *checkpoint = calloc(1, sizeof(*checkpoint));

	if (!checkpoint)
		return -ENOMEM;
	checkpoint->bitmap = bitmap_new_like(of->bitmap);
	if (!checkpoint->bitmap) {
		free(checkpoint);
		return -ENOMEM;
	}
	checkpoint->set = copy;
	checkpoint->facts = of->facts;
	checkpoint->facts.id = atomic_fetch_add(&last_id, 1) + 1;
	checkpoint->of = of;
	checkpoint->users = 1;
	append(checkpoint);
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
	for (struct checkpoint *to = copy->first; to; to = to->next) {
		to->facts.begun = to->of->facts.begun;
		bitmap_copy(to->bitmap, to->of->bitmap);
		to->of = NULL;
	}
}

/* ---- ending */

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

static void
stop_noting(struct checkpoints *set, struct checkpoint *checkpoint)
{
	struct freeze freeze;

	freeze_begin(&freeze, &set->image, 1);
	image_unobserve(set->image, &checkpoint->observer);
	freeze_end(&freeze);
}

/* Ends a checkpoint, at *at in the list of its set. */
static void
end_one(struct checkpoints *set, struct checkpoint **at)
{
	struct checkpoint *checkpoint = *at;

	atomic_store(&checkpoint->over, true);
	if (set->image)
		stop_noting(set, checkpoint);
	pthread_mutex_lock(&set->mutex);
	*at = checkpoint->next;
	set->count--;
	pthread_mutex_unlock(&set->mutex);
	checkpoint_release(checkpoint);
}

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

void
checkpoints_free(struct checkpoints *set)
{
	if (!set)
		return;
	while (set->first)
		end_one(set, &set->first);
	pthread_mutex_destroy(&set->mutex);
	free(set);
}

void
checkpoints_resized(struct checkpoints *set)
{
	struct checkpoint *checkpoint = set && set->image ? set->first : NULL;

	for (; checkpoint; checkpoint = checkpoint->next)
		bitmap_limit(checkpoint->bitmap, image_size(set->image));
}

void
checkpoints_spoil(struct checkpoints *set)
{
	struct checkpoint *checkpoint = set && set->image ? set->first : NULL;

	for (; checkpoint; checkpoint = checkpoint->next)
		bitmap_limit(checkpoint->bitmap, 0);
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
	if (checkpoint)
		*facts = checkpoint->facts;
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
