/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/native.h"

#include "engine/backing/kind.h"
#include "engine/io/image_state.h"

#include "common/error.h"

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
backing_of(const struct checkpoints *set)
{
	return &set->image->backing;
}

/* ---- the list */

static bool
is_there(const struct backing_checkpoint *one, const struct backing_checkpoint list[], size_t count)
{
	size_t i = 0;

	while (i < count && (list[i].id != one->id || strcmp(list[i].name, one->name) != 0))
		i++;
	return i < count;
}

/* Drops those that the backing no longer has. */
static void
drop(struct checkpoints *set, const struct backing_checkpoint list[], size_t count)
{
	struct checkpoint **at = &set->first;

	while (*at) {
		struct checkpoint *one = *at;

		if (is_there(&one->native, list, count)) {
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
add(struct checkpoints *set, const struct backing_checkpoint *facts)
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
	edition = set->kind->edition(backing_of(set));
	if (set->followed && edition == set->edition)
		return;
	count = set->kind->list(backing_of(set), list, CHECKPOINTS_MAX);
	drop(set, list, count);
	for (size_t i = 0; i < count; i++)
		all = add(set, &list[i]) && all;
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
				 backing_of(set)->path);
	one = checkpoint_new(set, &entry, false);
	if (!one)
		return -ENOMEM;
	memcpy(one->facts.name, name, strlen(name) + 1);
	r = set->kind->prepare(backing_of(set), name, &one->making, error);
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
			r = backing_of(one->set)->kind->snapshots->start(one->making, error);
	for (const struct checkpoint *one = prepared; r == 0 && one; one = one->next)
		if (one->making)
			r = backing_of(one->set)->kind->snapshots->await(one->making, end, error);
	return r;
}

void
native_keep(struct checkpoint *prepared)
{
	prepared->set->kind->keep(prepared->making);
}

/* ---- ending */

bool
native_find(struct checkpoints *set, const char *name, struct backing_checkpoint *facts)
{
	const struct checkpoint *one;

	pthread_mutex_lock(&set->mutex);
	one = *checkpoints_find(set, name);
	if (one)
		*facts = one->native;
	pthread_mutex_unlock(&set->mutex);
	return one;
}

int
native_end(struct checkpoints *set, uint64_t id, bool anyway, struct backing_removal **removal,
	   char **error)
{
	return set->kind->remove(backing_of(set), id, anyway, removal, error);
}

int
native_await_end(const struct checkpoints *set, struct backing_removal *removal, int64_t end,
		 char **error)
{
	return set->kind->await_removal(removal, end, error);
}

/* ---- what has changed */

/* Puts what the backing tells together to whole granules. */
struct rounding {
	change_visit visit;
	void *data;
	uint64_t base;       /* start of the image in the backing, in bytes */
	uint64_t place, end; /* what is left to tell of, in bytes of the image */
	uint64_t from, to;   /* what has changed, and grows; from == to: nothing */
	int result;          /* the visitor's */
};

/* Tells of what grew, and of what is before it. */
static void
tell(struct rounding *all)
{
	if (all->result == 0 && all->from > all->place)
		all->result = all->visit(all->data, all->place, all->from - all->place, false);
	if (all->result == 0 && all->to > all->from)
		all->result = all->visit(all->data, all->from, all->to - all->from, true);
	all->place = all->to;
}

/* What is between has changed, at least. */
static void
mark(struct rounding *all, uint64_t from, uint64_t to)
{
	from -= from % NATIVE_GRANULE;
	to += (NATIVE_GRANULE - to % NATIVE_GRANULE) % NATIVE_GRANULE;
	from = from < all->place ? all->place : from;
	to = to > all->end ? all->end : to;
	if (from >= to)
		return;
	if (from > all->to) {
		tell(all);
		all->from = from;
		all->to = to;
	} else if (to > all->to) {
		all->to = to;
	}
}

static int
found(void *data, uint64_t offset, uint64_t length, bool hole)
{
	struct rounding *all = data;

	if (!hole)
		mark(all, offset - all->base, offset - all->base + length);
	return all->result;
}

int
native_visit(const struct checkpoint *checkpoint, uint64_t offset, uint64_t length,
	     change_visit visit, void *data)
{
	const struct checkpoints *set = checkpoint->set;
	const uint64_t size = checkpoint->native.size, part = PART - offset % PART;
	struct rounding all = {
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
		r = set->kind->changes(backing_of(set), checkpoint->native.id, set->start + offset,
				       asked - offset, found, &all);
	if (r != 0)
		return r == -ENOENT ? -EIDRM : r;
	mark(&all, then, all.end);
	tell(&all);
	if (all.result == 0 && all.end > all.place)
		all.result = all.visit(all.data, all.place, all.end - all.place, false);
	return all.result;
}
