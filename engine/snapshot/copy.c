/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/snapshot/copy.h"

#include "engine/backing/file_extent.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most bytes that are copied at once. */
#define RUN_MAX (256u << 10)

/* Copies of at least this many bytes first ask whether there is a hole: otherwise the discard of a
 * whole sparse disk would read all of it. */
#define HOLE_MIN (64u << 10)

/* The most granules that are looked at on an event loop: 256 MiB of them. */
#define LOOK_MAX 65536

/* Granules that a thread copies, and that no other thread may copy meanwhile. */
struct copy_claim {
	uint64_t first, end; /* granules */
	struct copy_claim *next;
};

/* ---- granules */

static uint64_t
granule_at(const struct copy *copy, uint64_t place)
{
	return place / copy->granule - copy->start / copy->granule;
}

/* The place of a granule in the file. The first one may begin before .start. */
static uint64_t
place_of(const struct copy *copy, uint64_t granule)
{
	return (granule + copy->start / copy->granule) * copy->granule;
}

static bool
is_copied(const struct copy *copy, uint64_t granule)
{
	return atomic_load(&copy->copied[granule / 64]) >> (granule % 64) & 1;
}

static void
mark(struct copy *copy, uint64_t first, uint64_t end)
{
	for (uint64_t granule = first; granule < end; granule++)
		atomic_fetch_or(&copy->copied[granule / 64], UINT64_C(1) << (granule % 64));
}

/* Returns the end of the granules from `first` on, at most `end`, that are all copied or all not,
 * and sets *copied. Takes 64 granules at once where it can: a hole may have millions. */
static uint64_t
run_end(const struct copy *copy, uint64_t first, uint64_t end, bool *copied)
{
	uint64_t granule = first + 1, same;

	*copied = is_copied(copy, first);
	same = *copied ? UINT64_MAX : 0;
	while (granule < end) {
		if (granule % 64 == 0 && atomic_load(&copy->copied[granule / 64]) == same)
			granule += 64;
		else if (is_copied(copy, granule) == *copied)
			granule++;
		else
			break;
	}
	return granule < end ? granule : end;
}

/* Cuts a range off at the copy's part of the file, and sets its granules. Returns false if nothing
 * is left. */
static bool
find_granules(const struct copy *copy, uint64_t start, uint64_t end, uint64_t *first,
	      uint64_t *last)
{
	start = start > copy->start ? start : copy->start;
	end = end < copy->end ? end : copy->end;
	if (start >= end)
		return false;
	*first = granule_at(copy, start);
	*last = granule_at(copy, end - 1) + 1;
	return true;
}

/* ---- beginning and end */

int
copy_init(struct copy *copy, const struct copy_place *place, char **error)
{
	unsigned int align = place->source->direct_fd >= 0 ? place->source->direct_align : 1;
	uint64_t base, words;
	int r;

	*copy = (struct copy){
		.source.backing = {.fd = -1, .direct_fd = -1},
		.start = place->start,
		.end = place->end,
		.granule = align > COPY_GRANULE ? align : COPY_GRANULE,
		.scratch = {.fd = -1},
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.released = PTHREAD_COND_INITIALIZER,
	};
	base = place_of(copy, 0);
	words = (granule_at(copy, place->end - 1) + 64) / 64;
	copy->name = strdup(place->name);
	if (words <= SIZE_MAX / sizeof(uint64_t))
		copy->copied = calloc((size_t)words, sizeof(uint64_t));
	r = copy->name && copy->copied
		    ? source_open(&copy->source, place->source, place->direct_end)
		    : -ENOMEM;
	if (r < 0)
		error_set(error, r, "%s: %s", place->name, strerror(-r));
	else
		r = scratch_init(&copy->scratch, place->scratch, place->end - base,
				 place->scratch_size, error);
	if (r < 0)
		copy_fini(copy);
	return r;
}

void
copy_fini(struct copy *copy)
{
	scratch_fini(&copy->scratch);
	source_close(&copy->source);
	free(steal_pointer(&copy->copied));
	free(steal_pointer(&copy->name));
}

/* ---- breaking */

void
copy_break(struct copy *copy, const char *format, ...)
{
	bool first;
	va_list values;

	pthread_mutex_lock(&copy->mutex);
	first = !copy->reason[0];
	va_start(values, format);
	if (first)
		vsnprintf(copy->reason, REASON_MAX, format, values);
	va_end(values);
	atomic_store(&copy->broken, true);
	pthread_mutex_unlock(&copy->mutex);
	if (!first)
		return;
	log_error("snapshot %s: broken: %s; reading it fails from now on, and the image is not "
		  "affected",
		  copy->name, copy->reason);
	scratch_empty(&copy->scratch);
}

void
copy_abandon(struct copy *copy)
{
	pthread_mutex_lock(&copy->mutex);
	/* What fails from now on is no news. */
	if (!copy->reason[0])
		snprintf(copy->reason, REASON_MAX, "it has ended");
	atomic_store(&copy->broken, true);
	pthread_cond_broadcast(&copy->released);
	pthread_mutex_unlock(&copy->mutex);
}

bool
copy_is_broken(struct copy *copy, char reason[REASON_MAX])
{
	pthread_mutex_lock(&copy->mutex);
	memcpy(reason, copy->reason, REASON_MAX);
	pthread_mutex_unlock(&copy->mutex);
	return reason[0];
}

static void
break_by_scratch(struct copy *copy, int err)
{
	if (err == -EDQUOT && copy->scratch.most &&
	    atomic_load(&copy->scratch.written) > copy->scratch.most)
		copy_break(copy, "its scratch file has reached scratch-size=%llu",
			   (unsigned long long)copy->scratch.most);
	else
		copy_break(copy, "its scratch file in %s: %s", copy->scratch.directory,
			   strerror(-err));
}

/* ---- reading the file */

/* Returns false, and the copy is broken. */
static bool
read_source(struct copy *copy, bool direct, void *buffer, size_t length, uint64_t offset)
{
	uint64_t reached;
	int r = source_read(&copy->source, direct, buffer, length, offset, &reached);

	if (r == -ENODATA)
		copy_break(copy, "the image was truncated to %llu bytes",
			   (unsigned long long)reached);
	else if (r < 0)
		copy_break(copy, "reading the image at offset %llu: %s",
			   (unsigned long long)reached, strerror(-r));
	return r == 0;
}

/* ---- copying */

static bool
is_claimed(const struct copy *copy, uint64_t granule)
{
	for (const struct copy_claim *claim = copy->claims; claim; claim = claim->next) {
		if (claim->first <= granule && granule < claim->end)
			return true;
	}
	return false;
}

/*
 * Claims the first granules from `first` on, up to `end`, that are still to be copied, at most
 * RUN_MAX bytes. Waits for other threads that copy some of them. Returns false if there are none.
 */
static bool
claim_run(struct copy *copy, uint64_t first, uint64_t end, struct copy_claim *claim)
{
	uint64_t most = RUN_MAX > copy->granule ? RUN_MAX / copy->granule : 1, granule;

	pthread_mutex_lock(&copy->mutex);
	while (first < end && !atomic_load(&copy->broken)) {
		if (is_copied(copy, first))
			first++;
		else if (is_claimed(copy, first))
			pthread_cond_wait(&copy->released, &copy->mutex);
		else
			break;
	}
	granule = first;
	while (granule < end && granule - first < most && !atomic_load(&copy->broken) &&
	       !is_copied(copy, granule) && !is_claimed(copy, granule))
		granule++;
	*claim = (struct copy_claim){first, granule, copy->claims};
	if (granule > first)
		copy->claims = claim;
	pthread_mutex_unlock(&copy->mutex);
	return granule > first;
}

static void
release_run(struct copy *copy, const struct copy_claim *claim)
{
	struct copy_claim **at;

	pthread_mutex_lock(&copy->mutex);
	for (at = &copy->claims; *at != claim; at = &(*at)->next)
		;
	*at = claim->next;
	pthread_cond_broadcast(&copy->released);
	pthread_mutex_unlock(&copy->mutex);
}

static bool
is_zero(const char *bytes, size_t length)
{
	return length == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0);
}

/* Writes what is not zero. Returns 0 or -errno. */
static int
write_run(struct copy *copy, const char *bytes, size_t length, uint64_t offset)
{
	size_t begin = 0, at = 0;
	int r = 0;

	while (r == 0 && at < length) {
		size_t granule = length - at < copy->granule ? length - at : copy->granule;
		bool zero = is_zero(bytes + at, granule);

		if (zero && at > begin)
			r = scratch_write(&copy->scratch, bytes + begin, at - begin,
					  offset + begin);
		at += granule;
		begin = zero ? at : begin;
	}
	if (r == 0 && at > begin)
		r = scratch_write(&copy->scratch, bytes + begin, at - begin, offset + begin);
	return r;
}

/* Copies the claimed granules and marks them, or breaks the copy. */
static void
copy_run(struct copy *copy, bool direct, const struct copy_claim *claim, char *buffer)
{
	uint64_t base = place_of(copy, 0);
	uint64_t from = place_of(copy, claim->first), to = place_of(copy, claim->end);
	int r;

	from = from > copy->start ? from : copy->start;
	to = to < copy->end ? to : copy->end;
	/* The scratch file has a hole there, too. */
	if (to - from >= HOLE_MIN && source_is_hole(&copy->source, from, to)) {
		mark(copy, claim->first, claim->end);
		return;
	}
	if (!read_source(copy, direct, buffer, (size_t)(to - from), from))
		return;
	r = write_run(copy, buffer, (size_t)(to - from), from - base);
	if (r < 0)
		break_by_scratch(copy, r);
	else
		mark(copy, claim->first, claim->end);
}

bool
copy_has(const struct copy *copy, uint64_t start, uint64_t end)
{
	uint64_t first, last;
	bool copied;

	if (!find_granules(copy, start, end, &first, &last) || atomic_load(&copy->broken))
		return true;
	return last - first <= LOOK_MAX && run_end(copy, first, last, &copied) == last && copied;
}

void
copy_keep(struct copy *copy, bool direct, uint64_t start, uint64_t end)
{
	uint64_t first, last, length;
	void *CLEANUP_FREE buffer = NULL;
	struct copy_claim claim;

	if (!find_granules(copy, start, end, &first, &last))
		return;
	length = (last - first) * copy->granule;
	if (length > RUN_MAX && copy->granule < RUN_MAX)
		length = RUN_MAX;
	else if (length > RUN_MAX)
		length = copy->granule;
	if (posix_memalign(&buffer, copy->granule, (size_t)length) != 0) {
		copy_break(copy, "out of memory");
		return;
	}
	while (claim_run(copy, first, last, &claim)) {
		copy_run(copy, direct, &claim, buffer);
		release_run(copy, &claim);
		first = claim.end;
	}
}

/* ---- the reader */

/* Returns how many bytes of a run of the file, which begins in granule `first`, were read before
 * any change: up to the first granule that is copied by now. */
static size_t
still_old(const struct copy *copy, uint64_t offset, size_t length)
{
	uint64_t first = granule_at(copy, offset), end = granule_at(copy, offset + length - 1) + 1;
	uint64_t old;
	bool copied;

	old = run_end(copy, first, end, &copied);
	if (copied)
		return 0;
	return old == end ? length : (size_t)(place_of(copy, old) - offset);
}

/* Reads a run of granules that were all copied, or all not. Returns how many bytes were read, which
 * may be 0 if the first granule was copied meanwhile; or -EIO, and the copy is broken. */
static ssize_t
read_run(struct copy *copy, bool direct, void *buffer, size_t length, uint64_t offset, bool copied)
{
	int r;

	if (copied) {
		r = scratch_read(&copy->scratch, buffer, length, offset - place_of(copy, 0));
		if (r < 0)
			break_by_scratch(copy, r);
		return r < 0 ? -EIO : (ssize_t)length;
	}
	if (!read_source(copy, direct, buffer, length, offset))
		return -EIO;
	return (ssize_t)still_old(copy, offset, length);
}

int
copy_read(struct copy *copy, bool direct, void *buffer, size_t length, uint64_t offset)
{
	size_t done = 0;

	while (done < length && !atomic_load(&copy->broken)) {
		uint64_t place = offset + done, left = length - done;
		uint64_t first = granule_at(copy, place), end = granule_at(copy, place + left - 1);
		uint64_t stop;
		bool copied;
		ssize_t n;

		stop = place_of(copy, run_end(copy, first, end + 1, &copied));
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
		uint64_t last = granule_at(copy, end - 1) + 1;
		uint64_t stop =
			place_of(copy, run_end(copy, granule_at(copy, offset), last, &copied));

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
