/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/checkpoint_list.h"

#include "engine/io/image_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct bitmap *
checkpoint_bitmap_new(const struct record_entry *entry)
{
	struct bitmap *bitmap = bitmap_new(entry->granules * entry->granule, entry->granule);

	if (bitmap)
		bitmap_limit(bitmap, entry->covered);
	return bitmap;
}

struct checkpoint *
checkpoint_new(struct checkpoints *set, const struct record_entry *entry, bool kept)
{
	static _Atomic uint32_t last_id = 1;
	struct checkpoint *checkpoint = calloc(1, sizeof(*checkpoint));

	if (!checkpoint)
		return NULL;
	checkpoint->set = set;
	checkpoint->users = 1;
	checkpoint->entry = *entry;
	checkpoint->facts.granule = entry->granule;
	checkpoint->facts.begun = entry->begun;
	checkpoint->facts.id = atomic_fetch_add(&last_id, 1) + 1;
	memcpy(checkpoint->facts.name, entry->name, sizeof(entry->name));
	if (set->kind)
		return checkpoint;
	checkpoint->bitmap = checkpoint_bitmap_new(entry);
	if (kept) {
		checkpoint->written = checkpoint_bitmap_new(entry);
		checkpoint->stale = calloc(1, (size_t)record_blocks_for(entry->granules) + 1);
	}
	if (checkpoint->bitmap && (!kept || (checkpoint->written && checkpoint->stale)))
		return checkpoint;
	checkpoint_free(checkpoint);
	return NULL;
}

void
checkpoint_free(struct checkpoint *checkpoint)
{
	if (checkpoint->making)
		checkpoint->set->image->backing.kind->snapshots->free(checkpoint->making);
	free(checkpoint->bitmap);
	free(checkpoint->written);
	free(checkpoint->stale);
	free(checkpoint);
}

void
checkpoint_append(struct checkpoint *checkpoint)
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
checkpoint_list_empty(struct checkpoints *set)
{
	while (set->first) {
		struct checkpoint *checkpoint = set->first;

		set->first = checkpoint->next;
		set->count--;
		checkpoint_free(checkpoint);
	}
}

struct checkpoint **
checkpoint_list_find(struct checkpoints *set, const char *name)
{
	struct checkpoint **at = &set->first;

	while (*at && strcmp((*at)->facts.name, name) != 0)
		at = &(*at)->next;
	return at;
}

void
checkpoint_list_set_unknown(struct checkpoints *set, const char *reason)
{
	pthread_mutex_lock(&set->mutex);
	if (!set->problem[0])
		snprintf(set->problem, sizeof(set->problem), "%s", reason);
	pthread_mutex_unlock(&set->mutex);
	atomic_store(&set->unknown, true);
}

void
checkpoint_list_set_known(struct checkpoints *set)
{
	pthread_mutex_lock(&set->mutex);
	set->problem[0] = '\0';
	pthread_mutex_unlock(&set->mutex);
	atomic_store(&set->unknown, false);
}
