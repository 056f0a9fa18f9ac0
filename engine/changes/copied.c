/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The knowledge that the checkpoints of an image had at a moment: the set of a snapshot.
 */
#include "engine/changes/checkpoint.h"
#include "engine/changes/checkpoints_state.h"
#include "engine/image/image.h"

#include <errno.h>

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

	if (copy)
		copy->kind = set->kind;
	if (set->kind)
		return copy;
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

void
checkpoints_of_snapshot(struct checkpoints *copy, struct image *snapshot)
{
	if (!copy->kind)
		return;
	copy->image = snapshot;
	copy->start = image_start(snapshot);
}
