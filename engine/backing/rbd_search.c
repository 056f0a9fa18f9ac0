/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/rbd_search.h"

#include "engine/backing/rbd_loss.h"
#include "engine/backing/rbd_pending.h"
#include "engine/backing/rbd_thread.h"

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

static void *
search_all(void *data)
{
	struct backing_call *call = data;
	struct rbd_store *store = call->backing;
	struct list list = {.found = call->buffer, .most = call->room / sizeof(*list.found)};
	int r = store->module->extents(store->image, call->offset, call->length, list.most == 1,
				       store->facts.maps_objects, note, &list);

	rbd_loss_note(store, false, r);
	rbd_loss_finish(store, call, r < 0 ? r : (int)(list.count * sizeof(*list.found)));
	rbd_thread_end(store);
	return NULL;
}

/* ---- on the caller's */

struct search {
	struct backing_call call;
	pthread_mutex_t mutex; /* guards the members below */
	pthread_cond_t over;
	bool done;
};

static void
searched(struct backing_call *call, int result)
{
	struct search *search = call->owner;

	pthread_mutex_lock(&search->mutex);
	call->result = result;
	search->done = true;
	pthread_cond_signal(&search->over);
	pthread_mutex_unlock(&search->mutex);
}

/* Finds the first extents of a range. Returns the number of bytes in found[], or -errno. */
static int
find(struct rbd_store *store, uint64_t offset, uint64_t length, struct found *found, size_t most)
{
	struct search search = {
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.over = PTHREAD_COND_INITIALIZER,
		.call =
			{
				.op = CALL_SEARCH,
				.offset = offset,
				.length = length,
				.buffer = found,
				.room = most * sizeof(*found),
				.done = searched,
				.owner = &search,
				.backing = store,
			},
	};
	struct backing_call *call = rbd_pending_take(store, &search.call);
	int r = call ? rbd_thread_start(store, search_all, call) : 0;

	if (r < 0)
		rbd_loss_finish(store, call, r == -EAGAIN ? -ENOMEM : r);
	pthread_mutex_lock(&search.mutex);
	while (!search.done)
		pthread_cond_wait(&search.over, &search.mutex);
	pthread_mutex_unlock(&search.mutex);
	return search.call.result;
}

int
rbd_search(struct rbd_store *store, uint64_t offset, uint64_t length, bool one, extent_visit visit,
	   void *data)
{
	const size_t most = one ? 1 : FOUND_MAX;
	struct found *CLEANUP_FREE found = calloc(most, sizeof(*found));
	const uint64_t end = offset + length;
	int r = 0;

	if (!found)
		return -ENOMEM;
	while (r == 0 && offset < end) {
		size_t count;

		if (rbd_pending_is_late(store))
			return -ETIMEDOUT;
		r = find(store, offset, end - offset, found, most);
		if (r <= 0)
			return r;
		count = (size_t)r / sizeof(*found);
		r = 0;
		for (size_t i = 0; r == 0 && i < count; i++)
			r = visit(data, found[i].offset, found[i].length, found[i].hole);
		offset = one ? end : found[count - 1].offset + found[count - 1].length;
	}
	return r;
}
