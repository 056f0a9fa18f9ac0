/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of checkpoints.
 */
#include "engine/changes/checkpoint.h"
#include "engine/changes/checkpoints_state.h"
#include "engine/changes/native.h"
#include "engine/image/freeze.h"
#include "engine/image/image.h"
#include "engine/io/image_state.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct checkpoint **
checkpoints_find(struct checkpoints *set, const char *name)
{
	struct checkpoint **at = &set->first;

	native_follow(set);
	while (*at && strcmp((*at)->facts.name, name) != 0)
		at = &(*at)->next;
	return at;
}

bool
checkpoints_is_left_to_another(struct checkpoints *const sets[], size_t count, size_t i)
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

/* ---- native ones */

/* Whether another set that may write has the same checkpoint, and ends it. */
static bool
is_twin(struct checkpoints *const sets[], const struct backing_checkpoint found[], size_t count,
	size_t i)
{
	const bool writable = sets[i]->image->backing.writable;

	for (size_t j = 0; j < count; j++) {
		if (found[j].id == found[i].id && found[j].random == found[i].random &&
		    sets[j]->image->backing.writable && (!writable || j < i))
			return true;
	}
	return checkpoints_is_left_to_another(sets, count, i);
}

/* Notes the first failure, or logs each. */
static void
fail(int *result, int r, const char *name, char *why, char **error)
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

/* Ends all that are native. Returns 0 or -errno with *error of the first failure; without `error`,
 * each is logged, and the backings are asked to end them in every case. */
static int
end_native(struct checkpoints *const sets[], size_t count, const char *name, char **error)
{
	const int64_t end = clock_ms(CLOCK_MONOTONIC) + NATIVE_LIMIT_MS;
	struct backing_removal **CLEANUP_FREE removals = calloc(count, sizeof(removals[0]));
	struct backing_checkpoint *CLEANUP_FREE found = calloc(count, sizeof(found[0]));
	int result = 0;

	if (!removals || !found) {
		fail(&result, -ENOMEM, name, NULL, error);
		return result;
	}
	for (size_t i = 0; i < count; i++)
		if (sets[i]->kind)
			native_find(sets[i], name, &found[i]);
	for (size_t i = 0; i < count; i++) {
		char *why = NULL;
		int r = 0;

		if (found[i].id && !is_twin(sets, found, count, i))
			r = native_end(sets[i], found[i].id, !error, &removals[i], &why);
		fail(&result, r, name, why, error);
	}
	for (size_t i = 0; i < count; i++) {
		char *why = NULL;
		int r = removals[i] ? native_await_end(sets[i], removals[i], end, &why) : 0;

		fail(&result, r, name, why, error);
	}
	return result;
}

/* ---- all */

static void
end_noted(struct checkpoints *const sets[], size_t count, const char *name)
{
	/* One after the other: this needs no common moment. */
	for (size_t i = 0; i < count; i++) {
		struct checkpoint **at = sets[i]->kind ? NULL : checkpoints_find(sets[i], name);

		if (at && *at)
			end_one(sets[i], at);
	}
}

void
checkpoints_undo(struct checkpoints *const sets[], size_t count, const char *name)
{
	end_native(sets, count, name, NULL);
	end_noted(sets, count, name);
}

static bool
exists(struct checkpoints *set, const char *name)
{
	bool found;

	pthread_mutex_lock(&set->mutex);
	found = *checkpoints_find(set, name) != NULL;
	pthread_mutex_unlock(&set->mutex);
	return found;
}

int
checkpoints_end(struct checkpoints *const sets[], size_t count, const char *name, char **error)
{
	bool found = false, missing = false;
	int r;

	*error = NULL;
	for (size_t i = 0; i < count; i++) {
		bool has = exists(sets[i], name);

		/* Another process, or a call that failed for another image, may have ended it. */
		missing = missing || !(has || sets[i]->kind);
		found = found ||
			(has && !(sets[i]->kind && checkpoints_is_left_to_another(sets, count, i)));
	}
	if (!found || missing)
		return error_set(error, -ENOENT, "there is no checkpoint %s", name);
	/* First what may fail, so that it can be tried again. */
	r = end_native(sets, count, name, error);
	if (r == 0)
		end_noted(sets, count, name);
	return r;
}
