/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/snapshot/copied_image.h"

#include "engine/backing/file/file.h"
#include "engine/backing/kind.h"
#include "engine/image/freeze.h"
#include "engine/io/image_state.h"
#include "engine/io/observer.h"
#include "engine/snapshot/copiers.h"
#include "engine/snapshot/copy.h"

#include "common/cleanup.h"
#include "common/container_of.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The state of a copy's backing. */
struct snapshot {
	struct copy copy;
	struct copiers copiers;
	struct observer observer;
	struct image *observed; /* whose file's changes are observed; NULL: none yet */
	char identity[32];
};

/* ---- a copy as a backing */

static struct snapshot *
snapshot_of(const struct backing *backing)
{
	return backing->state;
}

static int
snapshot_read(const struct backing *backing, bool direct, void *buffer, size_t length,
	      uint64_t offset)
{
	return copy_read(&snapshot_of(backing)->copy, direct, buffer, length, offset);
}

/* Waits for the changes that are under way, since these may be using the copy. They copy no more
 * than what they have begun: all other changes wait for them meanwhile. */
static void
stop_observing(struct snapshot *snapshot)
{
	struct freeze freeze;

	if (!snapshot->observed)
		return;
	copy_abandon(&snapshot->copy);
	freeze_begin(&freeze, &snapshot->observed, 1);
	observer_remove(snapshot->observed->ranges, &snapshot->observer);
	freeze_end(&freeze);
}

static void
snapshot_close(struct backing *backing)
{
	struct snapshot *snapshot = snapshot_of(backing);

	if (snapshot) {
		stop_observing(snapshot);
		copiers_fini(&snapshot->copiers);
		copy_fini(&snapshot->copy);
		free(snapshot);
	}
	backing->state = NULL;
	backing->identity = NULL;
	backing->fd = backing->direct_fd = -1;
	free(steal_pointer(&backing->path));
}

static int64_t
snapshot_size(const struct backing *backing)
{
	return (int64_t)snapshot_of(backing)->copy.end;
}

static bool
snapshot_same(const struct backing *a, const struct backing *b)
{
	return strcmp(a->identity, b->identity) == 0;
}

static ssize_t
snapshot_peek(const struct backing *backing, void *buffer, size_t length, uint64_t offset)
{
	const struct copy *copy = &snapshot_of(backing)->copy;

	if (offset >= copy->end)
		return 0;
	length = length < copy->end - offset ? length : (size_t)(copy->end - offset);
	return snapshot_read(backing, false, buffer, length, offset);
}

static int
snapshot_extents(const struct backing *backing, uint64_t offset, uint64_t length, bool one,
		 extent_visit visit, void *data)
{
	return copy_extents(&snapshot_of(backing)->copy, offset, length, one, visit, data);
}

static bool
snapshot_have_holes(const struct backing *backing)
{
	return backing_file.have_holes(&snapshot_of(backing)->copy.source.backing);
}

/* Nobody else can have it open. */
static int
snapshot_lock(struct backing *backing, const struct image_config *config,
	      const struct lock_part *part, bool writable, bool locked, char **error)
{
	(void)backing, (void)config, (void)part, (void)writable, (void)locked, (void)error;
	return 0;
}

static int
snapshot_lock_check(const struct backing *backing, const struct image_config *config,
		    const struct lock_part *part, bool writable, char **error)
{
	(void)backing, (void)config, (void)part, (void)writable, (void)error;
	return 0;
}

static void
snapshot_unlock(struct backing *backing)
{
	(void)backing;
}

static const struct backing_kind backing_snapshot = {
	.read = snapshot_read,
	.close = snapshot_close,
	.size = snapshot_size,
	.same = snapshot_same,
	.peek = snapshot_peek,
	.extents = snapshot_extents,
	.have_holes = snapshot_have_holes,
	.lock = snapshot_lock,
	.lock_check = snapshot_lock_check,
	.unlock = snapshot_unlock,
};

/* ---- making a copy */

static bool
before_change(struct observer *observer, struct range *range)
{
	struct snapshot *snapshot = container_of(observer, struct snapshot, observer);

	return copiers_keep(&snapshot->copiers, range);
}

/* The file may grow again, and then has zeroes there. */
static void
after_truncation(struct observer *observer, uint64_t end)
{
	struct snapshot *snapshot = container_of(observer, struct snapshot, observer);

	copy_lose_end(&snapshot->copy, end);
}

static int
make_snapshot(const struct copied_image_wish *wish, struct snapshot **result, char **error)
{
	static _Atomic uint64_t last;
	const struct image *image = wish->image;
	struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
	const struct copy_place place = {
		.name = wish->name,
		.source = &image->backing,
		.start = image->config.offset,
		.end = image->config.offset + image_size(image),
		.direct_end = atomic_load(&image->direct_end),
		.scratch = wish->scratch,
		.scratch_size = wish->scratch_size,
	};
	int r = snapshot ? copy_init(&snapshot->copy, &place, error) : -ENOMEM;

	if (r < 0) {
		free(snapshot);
		return r;
	}
	snprintf(snapshot->identity, sizeof(snapshot->identity), "snapshot %llu",
		 (unsigned long long)atomic_fetch_add(&last, 1));
	copiers_init(&snapshot->copiers, &snapshot->copy);
	snapshot->observer.change = before_change;
	snapshot->observer.truncated = after_truncation;
	*result = snapshot;
	return 0;
}

/* Takes the snapshot and the path over. Requests are carried out by threads, which ask the kernel
 * themselves. */
static int
open_copy(struct snapshot *snapshot, const struct image_config *wanted, char *path,
	  struct image **result, char **error)
{
	struct image_config config = *wanted;
	struct backing backing = snapshot->copy.source.backing;

	config.engine = ENGINE_THREADS;
	config.page_cache = PAGE_CACHE_KEEP;
	backing.kind = &backing_snapshot;
	backing.path = path;
	backing.state = snapshot;
	backing.identity = snapshot->identity;
	backing.writable = backing.page_cache = backing.in_memory = false;
	return image_open_backing(&backing, &config, result, error);
}

int
copied_image_open(const struct copied_image_wish *wish, const struct image_config *config,
		  char *path, struct image **result, char **error)
{
	struct snapshot *snapshot;
	int r = make_snapshot(wish, &snapshot, error);

	if (r == 0)
		return open_copy(snapshot, config, path, result, error);
	free(path);
	return r;
}

void
copied_image_begin(struct image *copied, struct image *image)
{
	struct snapshot *snapshot = snapshot_of(&copied->backing);

	snapshot->observed = image;
	observer_add(image->ranges, &snapshot->observer);
}

bool
copied_image_is(const struct image *image)
{
	return image->backing.kind == &backing_snapshot;
}

struct copy *
copied_image_copy(const struct image *copied)
{
	return &snapshot_of(&copied->backing)->copy;
}
