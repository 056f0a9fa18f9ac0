/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to an image in Ceph, and the searches for its extents and its changes.
 */
#include "engine/backing/ceph/module/image.h"

#include <errno.h>

static int
result_of(const struct backing_call *call, ssize_t r)
{
	/* The engine would try these again with system calls. */
	if (r == -EAGAIN || r == -EINTR)
		return -EIO;
	if (r < 0)
		return (int)r;
	switch (call->op) {
	case CALL_READ: return (int)r;
	case CALL_WRITE: return (int)call->length;
	default: return 0;
	}
}

/* On a thread of librbd's. */
static void
completed(rbd_completion_t completion, void *data)
{
	struct backing_call *call = data;
	const struct rbd_image *image = call->state;
	ssize_t r = rbd_aio_get_return_value(completion);

	rbd_aio_release(completion);
	image->returned(call, result_of(call, r));
}

static int
submit(rbd_image_t image, const struct backing_call *call, rbd_completion_t completion)
{
	uint64_t offset = call->offset, length = call->length;

	switch (call->op) {
	case CALL_READ:
		return rbd_aio_read(image, offset, (size_t)length, call->buffer, completion);
	case CALL_WRITE:
		return rbd_aio_write(image, offset, (size_t)length, call->buffer, completion);
	case CALL_FLUSH: return rbd_aio_flush(image, completion);
	case CALL_DISCARD: return rbd_aio_discard(image, offset, length, completion);
	case CALL_ZERO:
		return rbd_aio_write_zeroes(image, offset, (size_t)length, completion, 0, 0);
	case CALL_ZERO_THICK:
		return rbd_aio_write_zeroes(image, offset, (size_t)length, completion,
					    RBD_WRITE_ZEROES_FLAG_THICK_PROVISION, 0);
	case CALL_SEARCH: break;
	}
	return -EINVAL;
}

void
rbd_image_start(struct rbd_image *image, struct backing_call *call)
{
	rbd_completion_t completion;
	int r = rbd_aio_create_completion(call, completed, &completion);

	call->state = image;
	if (r < 0) {
		image->returned(call, r);
		return;
	}
	r = submit(image->image, call, completion);
	if (r >= 0)
		return;
	rbd_aio_release(completion);
	image->returned(call, result_of(call, r));
}

struct search {
	extent_visit visit;
	void *data;
	uint64_t start, place, end; /* the extent that grows is from .start to .place */
	bool hole;                  /* and is one */
	bool one, over;             /* after the first extent the search is over */
	int result;                 /* the visitor's */
};

/* Hands the extent that grew over to the visitor. */
static void
visit_grown(struct search *search)
{
	uint64_t start = search->start;

	search->start = search->place;
	if (start == search->place || search->over)
		return;
	search->result = search->visit(search->data, start, search->place - start, search->hole);
	search->over = search->one || search->result;
}

/* All that there is up to `end` is of one kind. librbd tells of each object by itself. */
static void
grow(struct search *search, uint64_t end, bool hole)
{
	if (end > search->end)
		end = search->end;
	if (end <= search->place)
		return;
	if (hole != search->hole)
		visit_grown(search);
	search->hole = hole;
	search->place = end;
}

/* librbd tells only of what is there, in order; the rest is holes. */
static int
found(uint64_t offset, size_t length, int exists, void *data)
{
	struct search *search = data;

	grow(search, offset, true);
	grow(search, offset + length, !exists);
	return search->over ? -ECANCELED : 0;
}

/* The same, of what has changed; `exists` tells only what it is now. */
static int
found_changed(uint64_t offset, size_t length, int exists, void *data)
{
	(void)exists;
	return found(offset, length, true, data);
}

int
rbd_image_extents(struct rbd_image *image, uint64_t offset, uint64_t length, bool one, bool whole,
		  extent_visit visit, void *data)
{
	struct search search = {
		.visit = visit,
		.data = data,
		.start = offset,
		.place = offset,
		.end = offset + length,
		.one = one,
	};
	int r = rbd_diff_iterate2(image->image, NULL, offset, length, 1, whole, found, &search);

	if (r < 0 && !search.over)
		return r;
	grow(&search, search.end, true);
	visit_grown(&search);
	return search.result;
}

/*
 * librbd's quick way (whole objects, by the object map) tells too little after `rbd snap rollback`,
 * which brings the map of the older snapshot back. So the OSDs are asked for each object.
 *
 * A snapshot that another client removes is cut out of the objects before this client is told, and
 * then they tell too little. So the cluster is asked afterwards whether it is still there: it gets
 * another name before it is cut out.
 */
int
rbd_image_changes(struct rbd_image *image, const char *since, uint64_t offset, uint64_t length,
		  extent_visit visit, void *data)
{
	struct search search = {
		.visit = visit,
		.data = data,
		.start = offset,
		.place = offset,
		.end = offset + length,
	};
	const uint64_t end = search.end;
	uint64_t size;
	int r = rbd_get_size(image->image, &size);

	if (r < 0)
		return r;
	/* librbd tells nothing of what is beyond the end: that was cut off. */
	if (offset < size) {
		search.end = size < end ? size : end;
		r = rbd_diff_iterate2(image->image, since, offset, search.end - offset, 1, 0,
				      found_changed, &search);
		if (r < 0 && !search.over)
			return r;
		/* It may have been cut just before that. */
		r = rbd_get_size(image->image, &size);
		if (r < 0)
			return r;
		grow(&search, size, true);
		search.end = end;
	}
	grow(&search, end, false);
	visit_grown(&search);
	r = rbd_image_snapshot_check(image, since);
	return r < 0 ? r : search.result;
}
