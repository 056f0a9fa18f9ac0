/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_checkpoint.h"

#include "engine/backing/ceph/rbd_loss.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One in the list, by both names. */
struct rbd_checkpoint {
	struct backing_checkpoint facts;
	char name[RBD_CHECKPOINT_NAME_MAX + 1];
};

struct list {
	struct rbd_checkpoint *all;
	size_t count;
	uint64_t end; /* only older ones count: of a snapshot, its own id */
	const char *own;
	bool failed; /* out of memory */
};

/* Returns whether a snapshot is a checkpoint; then sets what the facts have from its name. */
static bool
is_checkpoint(const struct rbd_snapshot_facts *snapshot, struct backing_checkpoint *facts)
{
	const size_t prefix = sizeof(RBD_CHECKPOINT_PREFIX) - 1;
	const char *end = strrchr(snapshot->name, '.');
	size_t length;

	if (strncmp(snapshot->name, RBD_CHECKPOINT_PREFIX, prefix) != 0 ||
	    end < snapshot->name + prefix)
		return false;
	length = (size_t)(end - snapshot->name) - prefix;
	if (length == 0 || length > BACKING_CHECKPOINT_NAME_MAX ||
	    strspn(end + 1, "0123456789abcdef") != 16 || strlen(end) != 17)
		return false;
	facts->random = strtoull(end + 1, NULL, 16);
	memcpy(facts->name, snapshot->name + prefix, length);
	facts->name[length] = '\0';
	return true;
}

static void
list_note(void *data, const struct rbd_snapshot_facts *snapshot)
{
	struct list *list = data;
	struct backing_checkpoint facts = {
		.id = snapshot->id, .size = snapshot->size, .begun = snapshot->made};
	struct rbd_checkpoint *all;

	if (list->own && strcmp(snapshot->name, list->own) == 0)
		list->end = snapshot->id;
	if (!is_checkpoint(snapshot, &facts))
		return;
	all = realloc(list->all, (list->count + 1) * sizeof(*all));
	if (!all) {
		list->failed = true;
		return;
	}
	all[list->count].facts = facts;
	strcpy(all[list->count].name, snapshot->name);
	list->all = all;
	list->count++;
}

static int
list_compare(const void *a, const void *b)
{
	const struct rbd_checkpoint *first = a, *second = b;

	return first->facts.id < second->facts.id ? -1 : first->facts.id > second->facts.id;
}

static bool
is_known(const struct rbd_store *store, const struct list *list)
{
	if (store->checkpoint_count != list->count)
		return false;
	for (size_t i = 0; i < list->count; i++)
		if (store->checkpoints[i].facts.id != list->all[i].facts.id ||
		    strcmp(store->checkpoints[i].name, list->all[i].name) != 0)
			return false;
	return true;
}

int
rbd_checkpoints_learn(struct rbd_store *store)
{
	struct list list = {.end = UINT64_MAX, .own = store->name.snapshot};
	int r;

	pthread_mutex_lock(&store->learning);
	r = store->module->snapshots(store->image, list_note, &list);
	rbd_loss_note(store, false, r);
	if (r == 0 && list.failed)
		r = -ENOMEM;
	if (r == 0) {
		if (list.count > 0)
			qsort(list.all, list.count, sizeof(*list.all), list_compare);
		while (list.count > 0 && list.all[list.count - 1].facts.id >= list.end)
			list.count--;
		pthread_mutex_lock(&store->listing);
		if (!is_known(store, &list)) {
			struct rbd_checkpoint *old = store->checkpoints;

			store->checkpoints = list.all;
			store->checkpoint_count = list.count;
			atomic_fetch_add(&store->edition, 1);
			list.all = old;
		}
		pthread_mutex_unlock(&store->listing);
	}
	pthread_mutex_unlock(&store->learning);
	free(list.all);
	return r;
}

int
rbd_checkpoint_judge(struct rbd_store *store, const char *name)
{
	size_t place = 0, older = 0;
	int r = rbd_checkpoints_learn(store);

	if (r < 0)
		return r;
	pthread_mutex_lock(&store->listing);
	while (place < store->checkpoint_count && strcmp(store->checkpoints[place].name, name) != 0)
		place++;
	if (place == store->checkpoint_count)
		r = -ENOENT;
	else if (place >= BACKING_CHECKPOINTS_MAX)
		r = -ENOSPC;
	while (r == 0 && older < place &&
	       strcmp(store->checkpoints[older].facts.name, store->checkpoints[place].facts.name) !=
		       0)
		older++;
	if (r == 0 && older < place)
		r = -ENOTUNIQ;
	pthread_mutex_unlock(&store->listing);
	return r;
}

void
rbd_checkpoints_free(struct rbd_store *store)
{
	free(store->checkpoints);
}

uint64_t
rbd_checkpoints_edition(const struct backing *backing)
{
	return atomic_load(&rbd_store_of(backing)->edition);
}

size_t
rbd_checkpoints_list(const struct backing *backing, struct backing_checkpoint list[], size_t most)
{
	struct rbd_store *store = rbd_store_of(backing);
	size_t count;

	pthread_mutex_lock(&store->listing);
	count = store->checkpoint_count < most ? store->checkpoint_count : most;
	for (size_t i = 0; i < count; i++)
		list[i] = store->checkpoints[i].facts;
	pthread_mutex_unlock(&store->listing);
	return count;
}

bool
rbd_checkpoint_name(struct rbd_store *store, uint64_t id, char name[RBD_CHECKPOINT_NAME_MAX + 1])
{
	bool found = false;

	pthread_mutex_lock(&store->listing);
	for (size_t i = 0; i < store->checkpoint_count && !found; i++) {
		found = store->checkpoints[i].facts.id == id;
		if (found)
			strcpy(name, store->checkpoints[i].name);
	}
	pthread_mutex_unlock(&store->listing);
	return found;
}
