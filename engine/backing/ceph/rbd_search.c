/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_search.h"

#include "engine/backing/ceph/rbd_checkpoint.h"
#include "engine/backing/ceph/rbd_loss.h"
#include "engine/backing/ceph/rbd_pending.h"
#include "engine/backing/ceph/rbd_thread.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdlib.h>

/* The most extents that one call finds: more than a client gets in a reply. */
#define FOUND_MAX 2048

struct found {
	uint64_t offset, length; /* in bytes */
	bool hole;
};

/* ---- on the thread */

struct list {
	struct found *found;
	size_t count, most;
};

static int
note(void *data, uint64_t offset, uint64_t length, bool hole)
{
	struct list *list = data;

	list->found[list->count++] = (struct found){offset, length, hole};
	return list->count == list->most;
}

/* Asks librbd, and waits for it. */
static int
ask(struct rbd_store *store, const struct rbd_search *search, bool one, extent_visit visit,
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

static void *
search_all(void *data)
{
	struct backing_call *call = data;
	struct rbd_store *store = call->backing;
	struct list list = {.found = call->buffer, .most = call->room / sizeof(*list.found)};
	const struct rbd_search search = {call->checkpoint, call->offset, call->length};
	int r = ask(store, &search, list.most == 1, note, &list);

	rbd_loss_finish(store, call, r < 0 ? r : (int)(list.count * sizeof(*list.found)));
	rbd_thread_end(store);
	return NULL;
}

/* ---- on the caller's */

struct asked {
	struct backing_call call;
	pthread_mutex_t mutex; /* guards the members below */
	pthread_cond_t over;
	bool done;
};

static void
searched(struct backing_call *call, int result)
{
	struct asked *asked = call->owner;

	pthread_mutex_lock(&asked->mutex);
	call->result = result;
	asked->done = true;
	pthread_cond_signal(&asked->over);
	pthread_mutex_unlock(&asked->mutex);
}

/* Finds the first extents of a range. Returns the number of bytes in found[], or -errno. */
static int
find(struct rbd_store *store, const struct rbd_search *search, struct found *found, size_t most)
{
	struct asked asked = {
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.over = PTHREAD_COND_INITIALIZER,
		.call =
			{
				.op = CALL_SEARCH,
				.offset = search->offset,
				.length = search->length,
				.checkpoint = search->checkpoint,
				.buffer = found,
				.room = most * sizeof(*found),
				.done = searched,
				.owner = &asked,
				.backing = store,
			},
	};
	struct backing_call *call = rbd_pending_take(store, &asked.call);
	int r = call ? rbd_thread_start(store, search_all, call) : 0;

	if (r < 0)
		rbd_loss_finish(store, call, r == -EAGAIN ? -ENOMEM : r);
	pthread_mutex_lock(&asked.mutex);
	while (!asked.done)
		pthread_cond_wait(&asked.over, &asked.mutex);
	pthread_mutex_unlock(&asked.mutex);
	return asked.call.result;
}

static int
search_in_time(struct rbd_store *store, const struct rbd_search *search, bool one,
	       extent_visit visit, void *data)
{
	const size_t most = one ? 1 : FOUND_MAX;
	struct found *CLEANUP_FREE found = calloc(most, sizeof(*found));
	const uint64_t end = search->offset + search->length;
	struct rbd_search left = *search;
	int r = 0;

	if (!found)
		return -ENOMEM;
	while (r == 0 && left.offset < end) {
		size_t count;

		if (rbd_pending_is_late(store))
			return -ETIMEDOUT;
		left.length = end - left.offset;
		r = find(store, &left, found, most);
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

int
rbd_search(struct rbd_store *store, const struct rbd_search *search, bool one, extent_visit visit,
	   void *data)
{
	int r;

	if (atomic_load(&store->fenced))
		return -ESHUTDOWN;
	if (store->timeout > 0)
		return search_in_time(store, search, one, visit, data);
	r = ask(store, search, one, visit, data);
	/* What was found after the loss is the new owner's, or older. */
	return atomic_load(&store->fenced) ? -ESHUTDOWN : r;
}
