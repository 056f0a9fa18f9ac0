/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader of a copy.
 */
#include "engine/snapshot/copy.h"

#include "engine/backing/file/file_extent.h"
#include "engine/snapshot/copy_state.h"

#include <errno.h>

/* Returns how many bytes of a run of the file, which begins in granule `first`, were read before
 * any change: up to the first granule that is copied by now. */
static size_t
still_old(const struct copy *copy, uint64_t offset, size_t length)
{
	uint64_t first = copy_granule_at(copy, offset),
		 end = copy_granule_at(copy, offset + length - 1) + 1;
	uint64_t old;
	bool copied;

	old = copy_run_end(copy, first, end, &copied);
	if (copied)
		return 0;
	return old == end ? length : (size_t)(copy_place_of(copy, old) - offset);
}

/* Reads a run of granules that were all copied, or all not. Returns how many bytes were read, which
 * may be 0 if the first granule was copied meanwhile; or -EIO, and the copy is broken. */
static ssize_t
read_run(struct copy *copy, bool direct, void *buffer, size_t length, uint64_t offset, bool copied)
{
	int r;

	if (copied) {
		r = scratch_read(&copy->scratch, buffer, length, offset - copy_place_of(copy, 0));
		if (r < 0)
			copy_break_by_scratch(copy, r);
		return r < 0 ? -EIO : (ssize_t)length;
	}
	if (!copy_read_source(copy, direct, buffer, length, offset))
		return -EIO;
	return (ssize_t)still_old(copy, offset, length);
}

int
copy_read(struct copy *copy, bool direct, void *buffer, size_t length, uint64_t offset)
{
	size_t done = 0;

	while (done < length && !atomic_load(&copy->broken)) {
		uint64_t place = offset + done, left = length - done;
		uint64_t first = copy_granule_at(copy, place),
			 end = copy_granule_at(copy, place + left - 1);
		uint64_t stop;
		bool copied;
		ssize_t n;

		stop = copy_place_of(copy, copy_run_end(copy, first, end + 1, &copied));
		n = read_run(copy, direct, (char *)buffer + done,
			     (size_t)(stop - place < left ? stop - place : left), place, copied);
		if (n < 0)
			return (int)n;
		done += (size_t)n;
	}
	/* Last, since a copy that breaks gives its scratch file up, and changes go on. */
	return atomic_load(&copy->broken) ? -EIO : (int)length;
}

/* ---- holes */

struct copy_visit {
	const struct copy *copy;
	extent_visit visit;
	void *data;
	bool one;
};

/* A hole of the file was one at the moment of the copy, where its granules are not copied even
 * now, after it was found. What was copied counts as data, and all of a broken copy, whose reader
 * then gets the error. */
static int
visit_source(void *data, uint64_t offset, uint64_t length, bool hole)
{
	const struct copy_visit *state = data;
	const struct copy *copy = state->copy;
	uint64_t end = offset + length;
	int r = 0;

	if (!hole)
		return state->visit(state->data, offset, length, false);
	while (offset < end && r == 0) {
		bool copied;
		uint64_t last = copy_granule_at(copy, end - 1) + 1;
		uint64_t stop = copy_place_of(
			copy, copy_run_end(copy, copy_granule_at(copy, offset), last, &copied));

		stop = stop < end ? stop : end;
		copied = copied || atomic_load(&copy->broken);
		r = state->visit(state->data, offset, stop - offset, !copied);
		if (state->one)
			break;
		offset = stop;
	}
	return r;
}

int
copy_extents(struct copy *copy, uint64_t offset, uint64_t length, bool one, extent_visit visit,
	     void *data)
{
	struct copy_visit state = {copy, visit, data, one};

	if (atomic_load(&copy->broken))
		return -EIO;
	return file_extents(&copy->source.backing, offset, length, one, visit_source, &state);
}
