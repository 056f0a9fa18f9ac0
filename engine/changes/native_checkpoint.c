/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/native_checkpoint.h"

#include "engine/image/image.h"
#include "engine/io/image_state.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(CHECKPOINT_NAME_MAX == BACKING_CHECKPOINT_NAME_MAX &&
		       CHECKPOINTS_MAX == BACKING_CHECKPOINTS_MAX,
	       "a set would have others than its backing");

/* The backing is asked for parts of the image that end at multiples of this, in bytes: an answer
 * must come within cluster-timeout, and holds up other work of its thread. */
#define PART (UINT64_C(4) << 30)

static const struct backing *
native_backing(const struct checkpoints *set)
{
	return &set->image->backing;
}

/* ---- the list */

static bool
native_is_there(const struct backing_checkpoint *one, const struct backing_checkpoint list[],
		size_t count)
{
	size_t i = 0;

	while (i < count && (list[i].id != one->id || strcmp(list[i].name, one->name) != 0))
		i++;
	return i < count;
}

/* Drops those that the backing no longer has. */
static void
native_drop(struct checkpoints *set, const struct backing_checkpoint list[], size_t count)
{
	struct checkpoint **at = &set->first;

	while (*at) {
		struct checkpoint *one = *at;

		if (native_is_there(&one->native, list, count)) {
			at = &one->next;
			continue;
		}
		*at = one->next;
		set->count--;
		atomic_store(&one->over, true);
		if (--one->users == 0)
			checkpoint_free(one);
	}
}

/* Adds one that the set does not have. Several servers may have begun one of the same name: the
 * oldest is told, which has all changes of the others. Returns false if there is no memory. */
static bool
native_add(struct checkpoints *set, const struct backing_checkpoint *facts)
{
	const struct record_entry entry = {.granule = NATIVE_GRANULE, .begun = facts->begun};
	struct checkpoint **at = &set->first;
	struct checkpoint *one;

	while (*at && (*at)->native.id < facts->id) {
		if (strcmp((*at)->facts.name, facts->name) == 0)
			return true;
		at = &(*at)->next;
	}
	if ((*at && (*at)->native.id == facts->id) || !checkpoint_name_is_valid(facts->name))
		return true;
	one = checkpoint_new(set, &entry, false);
	if (!one)
		return false;
	one->native = *facts;
	memcpy(one->facts.name, facts->name, sizeof(one->facts.name));
	one->next = *at;
	*at = one;
	set->count++;
	return true;
}

void
native_follow(struct checkpoints *set)
{
	struct backing_checkpoint list[CHECKPOINTS_MAX];
	uint64_t edition;
	size_t count;
	bool all = true;

	if (!set->kind || !set->image)
		return;
	/* First, so that a change meanwhile is found the next time. */
	edition = set->kind->edition(native_backing(set));
	if (set->followed && edition == set->edition)
		return;
	count = set->kind->list(native_backing(set), list, CHECKPOINTS_MAX);
	native_drop(set, list, count);
	for (size_t i = 0; i < count; i++)
		all = native_add(set, &list[i]) && all;
	set->edition = edition;
	set->followed = all;
}

/* ---- beginning */

int
native_prepare(struct checkpoints *set, const char *name, uint64_t granule,
	       struct checkpoint **prepared, char **error)
{
	const struct record_entry entry = {.granule = NATIVE_GRANULE};
	struct checkpoint *one;
	int r;

	if (granule != CHECKPOINT_GRANULE && granule != NATIVE_GRANULE)
		return error_set(error, -EINVAL,
				 "%s: the cluster tells what has changed in granules of 4 KiB, and "
				 "of no other size: leave the granularity out",
				 native_backing(set)->path);
	one = checkpoint_new(set, &entry, false);
	if (!one)
		return -ENOMEM;
	memcpy(one->facts.name, name, strlen(name) + 1);
	r = set->kind->prepare(native_backing(set), name, &one->making, error);
	if (r < 0)
		checkpoint_free(one);
	else
		*prepared = one;
	return r;
}

int
native_make(const struct checkpoint *prepared, int64_t end, char **error)
{
	int r = 0;

	for (const struct checkpoint *one = prepared; r == 0 && one; one = one->next)
		if (one->making)
			r = native_backing(one->set)->kind->snapshots->start(one->making, error);
	for (const struct checkpoint *one = prepared; r == 0 && one; one = one->next)
		if (one->making)
			r = native_backing(one->set)->kind->snapshots->await(one->making, end,
									     error);
	return r;
}

void
native_keep(struct checkpoint *prepared)
{
	prepared->set->kind->keep(prepared->making);
	checkpoint_free(prepared);
}

/* ---- ending */

bool
native_is_left_to_another(struct checkpoints *const sets[], size_t count, size_t i)
{
	const struct image *image = sets[i]->image;
	size_t j = 0;

	if (image->backing.writable)
		return false;
	while (j < count &&
	       !(sets[j]->image->backing.writable && image_same(sets[j]->image, image)))
		j++;
	return j < count;
}

/* Returns whether another set that may write has the same checkpoint, and ends it. */
static bool
native_is_twin(struct checkpoints *const sets[], const struct backing_checkpoint found[],
	       size_t count, size_t i)
{
	const bool writable = sets[i]->image->backing.writable;

	for (size_t j = 0; j < count; j++) {
		if (found[j].id == found[i].id && found[j].random == found[i].random &&
		    sets[j]->image->backing.writable && (!writable || j < i))
			return true;
	}
	return native_is_left_to_another(sets, count, i);
}

/* Notes the first failure, or logs each. */
static void
native_fail(int *result, int r, const char *name, char *why, char **error)
{
	char *CLEANUP_FREE text = why;

	if (r == 0)
		return;
	if (!error)
		log_warning("the checkpoint %s is left: %s", name, why ? why : strerror(-r));
	else if (*result == 0)
		*error = steal_pointer(&text);
	*result = *result ? *result : r;
}

int
native_end(struct checkpoints *const sets[], size_t count, const char *name, char **error)
{
	const int64_t end = clock_ms(CLOCK_MONOTONIC) + NATIVE_LIMIT_MS;
	struct backing_removal **CLEANUP_FREE removals = calloc(count, sizeof(removals[0]));
	struct backing_checkpoint *CLEANUP_FREE found = calloc(count, sizeof(found[0]));
	int result = 0;

	if (!removals || !found) {
		native_fail(&result, -ENOMEM, name, NULL, error);
		return result;
	}
	for (size_t i = 0; i < count; i++) {
		const struct checkpoint *one;

		if (!sets[i]->kind)
			continue;
		pthread_mutex_lock(&sets[i]->mutex);
		native_follow(sets[i]);
		one = *checkpoint_list_find(sets[i], name);
		if (one)
			found[i] = one->native;
		pthread_mutex_unlock(&sets[i]->mutex);
	}
	for (size_t i = 0; i < count; i++) {
		char *why = NULL;
		int r = 0;

		if (found[i].id && !native_is_twin(sets, found, count, i))
			r = sets[i]->kind->remove(native_backing(sets[i]), found[i].id, !error,
						  &removals[i], &why);
		native_fail(&result, r, name, why, error);
	}
	for (size_t i = 0; i < count; i++) {
		char *why = NULL;
		int r = 0;

		if (removals[i])
			r = sets[i]->kind->await_removal(removals[i], end, &why);
		native_fail(&result, r, name, why, error);
	}
	return result;
}

/* ---- what has changed */

/* Puts what the backing tells together to whole granules. */
struct native_rounding {
	change_visit visit;
	void *data;
	uint64_t base;       /* start of the image in the backing, in bytes */
	uint64_t place, end; /* what is left to tell of, in bytes of the image */
	uint64_t from, to;   /* what has changed, and grows; from == to: nothing */
	int result;          /* the visitor's */
};

/* Tells of what grew, and of what is before it. */
static void
native_tell(struct native_rounding *all)
{
	if (all->result == 0 && all->from > all->place)
		all->result = all->visit(all->data, all->place, all->from - all->place, false);
	if (all->result == 0 && all->to > all->from)
		all->result = all->visit(all->data, all->from, all->to - all->from, true);
	all->place = all->to;
}

/* What is between has changed, at least. */
static void
native_mark(struct native_rounding *all, uint64_t from, uint64_t to)
{
	from -= from % NATIVE_GRANULE;
	to += (NATIVE_GRANULE - to % NATIVE_GRANULE) % NATIVE_GRANULE;
	from = from < all->place ? all->place : from;
	to = to > all->end ? all->end : to;
	if (from >= to)
		return;
	if (from > all->to) {
		native_tell(all);
		all->from = from;
		all->to = to;
	} else if (to > all->to) {
		all->to = to;
	}
}

static int
native_found(void *data, uint64_t offset, uint64_t length, bool hole)
{
	struct native_rounding *all = data;

	if (!hole)
		native_mark(all, offset - all->base, offset - all->base + length);
	return all->result;
}

int
native_visit(const struct checkpoint *checkpoint, uint64_t offset, uint64_t length,
	     change_visit visit, void *data)
{
	const struct checkpoints *set = checkpoint->set;
	const uint64_t size = checkpoint->native.size, part = PART - offset % PART;
	struct native_rounding all = {
		.visit = visit,
		.data = data,
		.base = set->start,
		.place = offset,
		.end = offset + (length < part ? length : part),
		.from = offset,
		.to = offset,
	};
	/* What the image did not have then has changed. */
	const uint64_t then = size > set->start ? size - set->start : 0;
	const uint64_t asked = then < all.end ? then : all.end;
	int r = 0;

	if (asked > offset)
		r = set->kind->changes(native_backing(set), checkpoint->native.id,
				       set->start + offset, asked - offset, native_found, &all);
	if (r != 0)
		return r == -ENOENT ? -EIDRM : r;
	native_mark(&all, then, all.end);
	native_tell(&all);
	if (all.result == 0 && all.end > all.place)
		all.result = all.visit(all.data, all.place, all.end - all.place, false);
	return all.result;
}
