/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/snapshot/copy.h"

#include "engine/snapshot/copy_state.h"

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

/* ---- granules */

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

uint64_t
copy_run_end(const struct copy *copy, uint64_t first, uint64_t end, bool *copied)
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
	*first = copy_granule_at(copy, start);
	*last = copy_granule_at(copy, end - 1) + 1;
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
	base = copy_place_of(copy, 0);
	words = (copy_granule_at(copy, place->end - 1) + 64) / 64;
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
	/* Further failures are no news. */
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

void
copy_break_by_scratch(struct copy *copy, int err)
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

bool
copy_read_source(struct copy *copy, bool direct, void *buffer, size_t length, uint64_t offset)
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

bool
copy_claim_at_once(struct copy *copy, uint64_t start, uint64_t end, struct copy_claim *claim)
{
	uint64_t first, last, granule;
	bool claimed;

	if (!find_granules(copy, start, end, &first, &last))
		return false;
	pthread_mutex_lock(&copy->mutex);
	for (granule = first; granule < last; granule++) {
		if (is_copied(copy, granule) || is_claimed(copy, granule))
			break;
	}
	*claim = (struct copy_claim){first, last, copy->claims};
	claimed = granule == last && !atomic_load(&copy->broken);
	if (claimed)
		copy->claims = claim;
	pthread_mutex_unlock(&copy->mutex);
	return claimed;
}

void
copy_release(struct copy *copy, const struct copy_claim *claims, size_t count)
{
	pthread_mutex_lock(&copy->mutex);
	for (size_t i = 0; i < count; i++) {
		struct copy_claim **at = &copy->claims;

		while (*at != &claims[i])
			at = &(*at)->next;
		*at = claims[i].next;
	}
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

void
copy_claimed_bytes(const struct copy *copy, const struct copy_claim *claim, uint64_t *from,
		   uint64_t *to)
{
	*from = copy_place_of(copy, claim->first);
	*to = copy_place_of(copy, claim->end);
	*from = *from > copy->start ? *from : copy->start;
	*to = *to < copy->end ? *to : copy->end;
}

void
copy_store(struct copy *copy, const struct copy_claim *claim, const char *bytes)
{
	uint64_t from, to;
	int r;

	copy_claimed_bytes(copy, claim, &from, &to);
	r = write_run(copy, bytes, (size_t)(to - from), from - copy_place_of(copy, 0));
	if (r < 0)
		copy_break_by_scratch(copy, r);
	else
		mark(copy, claim->first, claim->end);
}

/* Copies the claimed granules and marks them, or breaks the copy. */
static void
copy_run(struct copy *copy, bool direct, const struct copy_claim *claim, char *buffer)
{
	uint64_t from, to;

	copy_claimed_bytes(copy, claim, &from, &to);
	/* The scratch file has a hole there, too. */
	if (to - from >= HOLE_MIN && source_is_hole(&copy->source, from, to))
		mark(copy, claim->first, claim->end);
	else if (copy_read_source(copy, direct, buffer, (size_t)(to - from), from))
		copy_store(copy, claim, buffer);
}

bool
copy_has(const struct copy *copy, uint64_t start, uint64_t end)
{
	uint64_t first, last;
	bool copied;

	if (!find_granules(copy, start, end, &first, &last) || atomic_load(&copy->broken))
		return true;
	return last - first <= LOOK_MAX && copy_run_end(copy, first, last, &copied) == last &&
	       copied;
}

void
copy_lose_end(struct copy *copy, uint64_t end)
{
	uint64_t first, last;
	bool copied;

	if (find_granules(copy, end, copy->end, &first, &last) &&
	    (copy_run_end(copy, first, last, &copied) < last || !copied))
		copy_break(copy, "the image was truncated to %llu bytes", (unsigned long long)end);
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
		copy_release(copy, &claim, 1);
		first = claim.end;
	}
}
