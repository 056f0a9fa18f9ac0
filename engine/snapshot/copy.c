/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/snapshot/copy.h"

#include "engine/backing/kind.h"
#include "engine/bitmap.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The most bytes that are copied at once. */
#define RUN_MAX (256u << 10)

/* Copies of at least this many bytes first ask whether there is a hole: otherwise the discard of a
 * whole sparse disk would read all of it. */
#define HOLE_MIN (64u << 10)

/* The most granules that are looked at on an event loop: 256 MiB of them. */
#define LOOK_MAX 65536

/* ---- granules */

/* Returns whether the granule at `start` is copied, and sets *end, at most `limit`, to the end of
 * the granules from there on that are the same in that. */
static bool
copy_next_run(const struct copy *copy, uint64_t start, uint64_t limit, uint64_t *end)
{
	bool copied = bitmap_run(copy->copied, start - copy->base, limit - copy->base, end);

	*end += copy->base;
	return copied;
}

/* Extends a range to whole granules, and cuts it off at the copy's part of the file. Returns false
 * if nothing is left. */
static bool
copy_clip(const struct copy *copy, uint64_t *start, uint64_t *end)
{
	if (*start >= copy->end || *end <= copy->start || *start >= *end)
		return false;
	*start -= *start % copy->granule;
	*start = *start > copy->start ? *start : copy->start;
	*end = *end < copy->end ? *end : copy->end;
	*end += (copy->granule - *end % copy->granule) % copy->granule;
	*end = *end < copy->end ? *end : copy->end;
	return true;
}

/* ---- beginning and end */

static int
copy_duplicate(int fd, int *copy)
{
	*copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return fd >= 0 && *copy < 0 ? -errno : 0;
}

int
copy_init(struct copy *copy, const struct copy_place *place, char **error)
{
	const struct backing *source = place->source;
	unsigned int align = source->direct_fd >= 0 ? source->direct_align : 1;
	int r;

	*copy = (struct copy){
		.source = *source,
		.direct_end = place->direct_end,
		.start = place->start,
		.end = place->end,
		.granule = align > COPY_GRANULE ? align : COPY_GRANULE,
		.scratch = {.fd = -1},
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.released = PTHREAD_COND_INITIALIZER,
	};
	copy->source.path = NULL;
	copy->source.fd = copy->source.direct_fd = copy->source.claim_fd = -1;
	copy->base = place->start - place->start % copy->granule;
	copy->name = strdup(place->name);
	copy->copied = bitmap_new(place->end - copy->base, copy->granule);
	r = copy->name && copy->copied ? copy_duplicate(source->fd, &copy->source.fd) : -ENOMEM;
	if (r == 0)
		r = copy_duplicate(source->direct_fd, &copy->source.direct_fd);
	if (r < 0)
		error_set(error, r, "%s: %s", place->name, strerror(-r));
	else
		r = scratch_init(&copy->scratch, place->scratch, place->end - copy->base,
				 place->scratch_size, error);
	if (r < 0)
		copy_fini(copy);
	return r;
}

void
copy_fini(struct copy *copy)
{
	scratch_fini(&copy->scratch);
	cleanup_close(&copy->source.direct_fd);
	cleanup_close(&copy->source.fd);
	copy->source.direct_fd = copy->source.fd = -1;
	free(steal_pointer(&copy->copied));
	free(steal_pointer(&copy->name));
}

/* ---- breaking */

/* Returns whether the copy was whole until now. */
static bool __attribute__((format(printf, 2, 0)))
copy_note_break(struct copy *copy, const char *format, va_list values)
{
	bool first;

	pthread_mutex_lock(&copy->mutex);
	first = !copy->reason[0];
	if (first)
		vsnprintf(copy->reason, REASON_MAX, format, values);
	atomic_store(&copy->broken, true);
	pthread_mutex_unlock(&copy->mutex);
	if (first)
		log_error("snapshot %s: broken: %s; reading it fails from now on, and the image is "
			  "not affected",
			  copy->name, copy->reason);
	return first;
}

void
copy_break(struct copy *copy, const char *format, ...)
{
	bool first;
	va_list values;

	va_start(values, format);
	first = copy_note_break(copy, format, values);
	va_end(values);
	if (first)
		scratch_empty(&copy->scratch);
}

void
copy_break_at_once(struct copy *copy, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	copy_note_break(copy, format, values);
	va_end(values);
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

static void
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

/* Returns whether a read can be a direct one. */
static bool
copy_takes_direct(const struct copy *copy, const void *buffer, size_t length, uint64_t offset)
{
	const struct backing *source = &copy->source;

	return source->direct_fd >= 0 && !((offset | length) & (source->direct_align - 1)) &&
	       !((uintptr_t)buffer & (source->memory_align - 1)) &&
	       offset + length <= copy->direct_end;
}

/* Reads all bytes, by direct I/O if that is wanted and their alignment allows it. May wait for the
 * disk. Returns false, and the copy is broken. */
static bool
copy_read_source(struct copy *copy, bool direct, void *buffer, size_t length, uint64_t offset)
{
	char *to = buffer;

	while (length > 0) {
		/* After a direct read that has met the end of the file, the rest may not fit. */
		int fd = direct && copy_takes_direct(copy, to, length, offset)
				 ? copy->source.direct_fd
				 : copy->source.fd;
		ssize_t n = pread(fd, to, length, (off_t)offset);
		int err = errno;

		if (n < 0 && err == EINTR)
			continue;
		if (n == 0)
			copy_break(copy, "the image was truncated to %llu bytes",
				   (unsigned long long)offset);
		else if (n < 0)
			copy_break(copy, "reading the image at offset %llu: %s",
				   (unsigned long long)offset, strerror(err));
		if (n <= 0)
			return false;
		to += n;
		offset += (size_t)n;
		length -= (size_t)n;
	}
	return true;
}

/* Returns whether there is only a hole from `from` to `to`. Beyond the end of the file there is
 * none, but what was truncated. */
static bool
copy_is_hole(const struct copy *copy, uint64_t from, uint64_t to)
{
	int fd = copy->source.fd;
	off_t data;

	if (lseek(fd, (off_t)from, SEEK_HOLE) != (off_t)from)
		return false;
	data = lseek(fd, (off_t)from, SEEK_DATA);
	if (data >= 0)
		return (uint64_t)data >= to;
	/* A hole up to the end of the file, which may be before `to`: it was truncated. */
	return errno == ENXIO && lseek(fd, 0, SEEK_END) >= (off_t)to;
}

/* ---- claims */

/* The mutex is held. Returns the end of what nobody has claimed from `start` on; `start` if
 * somebody has. */
static uint64_t
copy_unclaimed(const struct copy *copy, uint64_t start, uint64_t end)
{
	for (const struct copy_claim *claim = copy->claims; claim; claim = claim->next) {
		if (claim->start < end && start < claim->end)
			end = claim->start > start ? claim->start : start;
	}
	return end;
}

static void
copy_claim(struct copy *copy, uint64_t start, uint64_t end, struct copy_claim *claim)
{
	*claim = (struct copy_claim){start, end, copy->claims};
	copy->claims = claim;
}

/* The most bytes from `start` on, up to `end`, that are copied at once. */
static uint64_t
copy_run_limit(const struct copy *copy, uint64_t start, uint64_t end)
{
	uint64_t most = RUN_MAX > copy->granule ? RUN_MAX : copy->granule;

	most += start - start % copy->granule;
	return most < end ? most : end;
}

/*
 * Claims the first granules from `start` on, up to `end`, that are still to be copied, at most
 * RUN_MAX bytes. Waits for other threads that copy some of them. Returns false if there are none.
 */
static bool
copy_claim_run(struct copy *copy, uint64_t start, uint64_t end, struct copy_claim *claim)
{
	uint64_t stop = start;

	pthread_mutex_lock(&copy->mutex);
	while (start < end && !atomic_load(&copy->broken)) {
		if (copy_next_run(copy, start, copy_run_limit(copy, start, end), &stop)) {
			start = stop;
			continue;
		}
		stop = copy_unclaimed(copy, start, stop);
		if (stop > start) {
			copy_claim(copy, start, stop, claim);
			break;
		}
		pthread_cond_wait(&copy->released, &copy->mutex);
	}
	pthread_mutex_unlock(&copy->mutex);
	return stop > start;
}

bool
copy_claim_at_once(struct copy *copy, uint64_t start, uint64_t end, struct copy_claim *claim)
{
	uint64_t stop;
	bool claimed;

	if (!copy_clip(copy, &start, &end))
		return false;
	pthread_mutex_lock(&copy->mutex);
	claimed = !atomic_load(&copy->broken) && !copy_next_run(copy, start, end, &stop) &&
		  stop == end && copy_unclaimed(copy, start, end) == end;
	if (claimed)
		copy_claim(copy, start, end, claim);
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

/* ---- copying */

/* Writes what is not zero. Returns 0 or -errno. */
static int
copy_write(struct copy *copy, const char *bytes, size_t length, uint64_t offset)
{
	size_t begin = 0, at = 0;
	int r = 0;

	while (r == 0 && at < length) {
		size_t granule = length - at < copy->granule ? length - at : copy->granule;
		bool zero = bytes[at] == 0 && memcmp(bytes + at, bytes + at + 1, granule - 1) == 0;

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

/* Marks claimed granules: from now on, changes may begin. */
static void
copy_mark(struct copy *copy, const struct copy_claim *claim)
{
	bitmap_mark(copy->copied, claim->start - copy->base, claim->end - copy->base);
}

/* Writes the bytes of claimed granules to the scratch file and marks the granules, or breaks the
 * copy. May wait for the disk. */
static void
copy_store(struct copy *copy, const struct copy_claim *claim, const char *bytes)
{
	int r = copy_write(copy, bytes, (size_t)(claim->end - claim->start),
			   claim->start - copy->base);

	if (r < 0)
		copy_break_by_scratch(copy, r);
	else
		copy_mark(copy, claim);
}

bool
copy_has(const struct copy *copy, uint64_t start, uint64_t end)
{
	if (!copy_clip(copy, &start, &end) || atomic_load(&copy->broken))
		return true;
	return (end - start) / copy->granule <= LOOK_MAX &&
	       bitmap_has(copy->copied, start - copy->base, end - copy->base);
}

void
copy_lose_end(struct copy *copy, uint64_t end)
{
	uint64_t start = end, stop = copy->end;

	if (copy_clip(copy, &start, &stop) &&
	    !bitmap_has(copy->copied, start - copy->base, stop - copy->base))
		copy_break(copy, "the image was truncated to %llu bytes", (unsigned long long)end);
}

void
copy_keep(struct copy *copy, bool direct, uint64_t start, uint64_t end)
{
	void *CLEANUP_FREE buffer = NULL;
	struct copy_claim claim;
	uint64_t first;

	if (!copy_clip(copy, &start, &end))
		return;
	/* For the longest run: the first may begin within a granule, the next ones don't. */
	first = start - start % copy->granule;
	if (posix_memalign(&buffer, copy->granule,
			   (size_t)(copy_run_limit(copy, first, end) - first)) != 0) {
		copy_break(copy, "out of memory");
		return;
	}
	for (; copy_claim_run(copy, start, end, &claim); start = claim.end) {
		size_t length = (size_t)(claim.end - claim.start);

		/* The scratch file has a hole there, too. */
		if (length >= HOLE_MIN && copy_is_hole(copy, claim.start, claim.end))
			copy_mark(copy, &claim);
		else if (copy_read_source(copy, direct, buffer, length, claim.start))
			copy_store(copy, &claim, buffer);
		copy_release(copy, &claim, 1);
	}
}

/* Returns the room for a claim's bytes, in bytes: each begins at a multiple of the granule. */
static size_t
copy_room(const struct copy *copy, const struct copy_claim *claim)
{
	return ((size_t)(claim->end - claim->start) + copy->granule - 1) / copy->granule *
	       copy->granule;
}

void
copy_ahead(struct copy *copy, struct part_reads *reads, const struct copy_range *ranges,
	   unsigned int count)
{
	struct copy_claim claims[AHEAD_CHANGES];
	struct part parts[AHEAD_CHANGES] = {0};
	unsigned int claimed = 0;
	void *CLEANUP_FREE buffer = NULL;
	size_t bytes = 0;

	for (unsigned int i = 0; i < count; i++)
		if (copy_claim_at_once(copy, ranges[i].start, ranges[i].end, &claims[claimed]))
			bytes += copy_room(copy, &claims[claimed++]);
	if (claimed > 0 && posix_memalign(&buffer, copy->granule, bytes) == 0) {
		char *at = buffer;

		for (unsigned int i = 0; i < claimed; i++) {
			size_t length = (size_t)(claims[i].end - claims[i].start);

			parts[i] = (struct part){
				.buffer = at,
				.length = length,
				.offset = claims[i].start,
				.direct = copy_takes_direct(copy, at, length, claims[i].start),
			};
			at += copy_room(copy, &claims[i]);
		}
		part_reads_run(reads, copy->source.direct_fd, parts, claimed);
	}
	for (unsigned int i = 0; i < claimed; i++)
		if (parts[i].read)
			copy_store(copy, &claims[i], parts[i].buffer);
	copy_release(copy, claims, claimed);
}

/* ---- reading the copy */

int
copy_read(struct copy *copy, bool direct, void *buffer, size_t length, uint64_t offset)
{
	const uint64_t end = offset + length;
	char *to = buffer;

	assert(end <= copy->end);
	while (offset < end && !atomic_load(&copy->broken)) {
		uint64_t stop;
		int r = 0;

		if (copy_next_run(copy, offset, end, &stop)) {
			r = scratch_read(&copy->scratch, to, (size_t)(stop - offset),
					 offset - copy->base);
			if (r < 0)
				copy_break_by_scratch(copy, r);
		} else if (!copy_read_source(copy, direct, to, (size_t)(stop - offset), offset)) {
			r = -EIO;
		} else if (copy_next_run(copy, offset, stop, &stop)) {
			/* It was copied meanwhile, and perhaps changed before it was read. What is
			 * still not copied, up to `stop`, was read before any change. */
			stop = offset;
		}
		if (r < 0)
			return -EIO;
		to += stop - offset;
		offset = stop;
	}
	/* Last, since a copy that breaks gives its scratch file up, and changes go on. */
	return atomic_load(&copy->broken) ? -EIO : (int)length;
}

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
copy_visit_source(void *data, uint64_t offset, uint64_t length, bool hole)
{
	const struct copy_visit *state = data;
	const struct copy *copy = state->copy;
	const uint64_t end = offset + length;
	uint64_t stop;
	int r = 0;

	if (!hole)
		return state->visit(state->data, offset, length, false);
	for (; offset < end && r == 0; offset = stop) {
		bool copied = copy_next_run(copy, offset, end, &stop) || atomic_load(&copy->broken);

		r = state->visit(state->data, offset, stop - offset, !copied);
		if (state->one)
			break;
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
	return copy->source.kind->extents(&copy->source, offset, length, one, copy_visit_source,
					  &state);
}
