/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_search.h"

#include "engine/backing/ceph/rbd_checkpoint.h"
#include "engine/backing/ceph/rbd_loss.h"
#include "engine/backing/ceph/rbd_pending.h"

#include "common/cleanup.h"
#include "common/container_of.h"

#include <errno.h>
#include <stdlib.h>

/* The most extents that one call finds: more than a client gets in a reply. */
#define FOUND_MAX 2048

struct search {
	uint64_t checkpoint;     /* id; 0: for extents */
	uint64_t offset, length; /* in bytes */
};

struct found {
	uint64_t offset, length; /* in bytes */
	bool hole;
};

/* ---- the job */

struct list {
	struct found *found;
	size_t count, most;
};

static int
search_note_extent(void *data, uint64_t offset, uint64_t length, bool hole)
{
	struct list *list = data;

	list->found[list->count++] = (struct found){offset, length, hole};
	return list->count == list->most;
}

/* Asks librbd, and waits for it. */
static int
search_ask(struct rbd_store *store, const struct search *search, bool one, extent_visit visit,
	   void *data)
{
	char since[RBD_CHECKPOINT_NAME_MAX + 1];
	int r;

	if (!search->checkpoint)
		r = store->module->extents(store->image, search->offset, search->length, one,
					   rbd_has(store, RBD_HAS_FAST_DIFF), visit, data);
	else if (rbd_checkpoint_name(store, search->checkpoint, since))
		r = store->module->changes(store->image, since, search->offset, search->length,
					   visit, data);
	else
		r = -ENOENT;
	rbd_loss_note(store, false, r);
	return r;
}

struct search_job {
	struct rbd_job job;
	struct backing_call *call;
};

static void
search_all(struct rbd_job *job)
{
	struct search_job *searching = container_of(job, struct search_job, job);
	struct backing_call *call = searching->call;
	struct rbd_store *store = call->backing;
	struct list list = {.found = call->buffer, .most = call->room / sizeof(*list.found)};
	const struct search search = {call->checkpoint, call->offset, call->length};
	int r = search_ask(store, &search, list.most == 1, search_note_extent, &list);

	rbd_loss_finish(store, call, r < 0 ? r : (int)(list.count * sizeof(*list.found)));
	free(searching);
}

/* ---- on the caller's thread */

/* Finds the first extents of a range. Returns the number of bytes in found[], or -errno. */
static int
search_find(struct rbd_store *store, const struct search *search, struct found *found, size_t most)
{
	struct search_job *searching;
	struct rbd_waiter waiter;
	struct backing_call *call;

	rbd_waiter_init(&waiter, &(struct backing_call){.op = CALL_SEARCH,
							.offset = search->offset,
							.length = search->length,
							.checkpoint = search->checkpoint,
							.buffer = found,
							.room = most * sizeof(*found),
							.backing = store});
	call = rbd_pending_take(store, &waiter.call);
	searching = call ? malloc(sizeof(*searching)) : NULL;
	if (searching) {
		*searching = (struct search_job){
			.job = {.run = search_all, .waits = true, .count = &store->jobs},
			.call = call,
		};
		rbd_job_add(&searching->job, 0);
	} else if (call) {
		rbd_loss_finish(store, call, -ENOMEM);
	}
	return rbd_waiter_await(&waiter);
}

static int
search_in_time(struct rbd_store *store, const struct search *search, bool one, extent_visit visit,
	       void *data)
{
	const size_t most = one ? 1 : FOUND_MAX;
	struct found *CLEANUP_FREE found = calloc(most, sizeof(*found));
	const uint64_t end = search->offset + search->length;
	struct search left = *search;
	int r = 0;

	if (!found)
		return -ENOMEM;
	while (r == 0 && left.offset < end) {
		size_t count;

		if (rbd_pending_is_late(store))
			return -ETIMEDOUT;
		left.length = end - left.offset;
		r = search_find(store, &left, found, most);
		if (r <= 0)
			return r;
		count = (size_t)r / sizeof(*found);
		r = 0;
		for (size_t i = 0; r == 0 && i < count; i++)
			r = visit(data, found[i].offset, found[i].length, found[i].hole);
		left.offset = one ? end : found[count - 1].offset + found[count - 1].length;
	}
	return r;
}

static int
search_begin(struct rbd_store *store, const struct search *search, bool one, extent_visit visit,
	     void *data)
{
	int r;

	if (atomic_load(&store->fenced))
		return -ESHUTDOWN;
	if (store->timeout > 0)
		return search_in_time(store, search, one, visit, data);
	r = search_ask(store, search, one, visit, data);
	/* What was found after the loss is the new owner's, or older. */
	return atomic_load(&store->fenced) ? -ESHUTDOWN : r;
}

int
rbd_search_extents(const struct backing *backing, uint64_t offset, uint64_t length, bool one,
		   extent_visit visit, void *data)
{
	return search_begin(rbd_store_of(backing), &(struct search){0, offset, length}, one, visit,
			    data);
}

int
rbd_search_changes(const struct backing *backing, uint64_t id, uint64_t offset, uint64_t length,
		   extent_visit visit, void *data)
{
	return search_begin(rbd_store_of(backing), &(struct search){id, offset, length}, false,
			    visit, data);
}
